import snug.tensor as T

x = T.dvector("x")
T.opt.Assert()(x, x > 0)
