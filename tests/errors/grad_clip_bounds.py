import snug
import snug.tensor as T

snug.gradient.grad_clip(T.dvector("x"), 1, -1)
