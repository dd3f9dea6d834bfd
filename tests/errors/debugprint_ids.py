import snug
import snug.tensor as T

x = T.matrix("x")
snug.debugprint(x, ids="letters")
