import snug

w = snug.shared(1.0, "w")
w.set_value(None)
