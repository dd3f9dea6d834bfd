import snug
import snug.tensor as T

snug.config.int_division = "raise"
a, b = T.iscalars("a", "b")
a / b
