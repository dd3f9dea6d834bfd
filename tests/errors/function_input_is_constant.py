import snug
import snug.tensor as T

c = T.constant(3.0)
snug.function([c], c * 2)
