import snug
import snug.tensor as T

x = T.scalar("x")
snug.function([x], x, mode="MonitorMode")
