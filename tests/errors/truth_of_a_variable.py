import snug.tensor as T

x = T.scalar("x")
abs(x) if x > 0 else x
