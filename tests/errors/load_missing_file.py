from snug import nn

model = nn.Dense(3).build((None, 4))
nn.load(model, "there-is-none.safetensors")
