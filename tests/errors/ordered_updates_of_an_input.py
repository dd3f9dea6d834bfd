import snug
import snug.tensor as T

updates = snug.OrderedUpdates()
updates[T.scalar("x")] = 1
