import snug.tensor as T

x, y = T.scalar("x"), T.scalar("y")
T.concatenate([x, y])
