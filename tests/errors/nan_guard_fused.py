import snug
import snug.tensor as T

x, y = T.vector("x"), T.vector("y")
loss = T.switch(y > 0, T.log(y), 0) + T.exp(1 / x - 1) * 2
f = snug.function([x, y], loss, mode="NanGuardMode")
f([1, 0], [-1, 1])
