from snug import nn

model = nn.Sequential(("body", nn.Dense(8)), ("head", nn.Dense(2)))
model["haed"]
