import snug
import snug.tensor as T

x = T.dvector("x")
y = snug.gradient.undefined_grad(x)
T.grad(y.sum(), x)
