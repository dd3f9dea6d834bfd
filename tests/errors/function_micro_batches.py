import snug
import snug.tensor as T

x = T.matrix("x")
snug.function([x], x * 2, micro_batches=2.5)
