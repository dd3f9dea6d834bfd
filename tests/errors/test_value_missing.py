import snug
import snug.tensor as T

snug.config.compute_test_value = "raise"
x = T.vector("x")
y = x * 2
