import snug

a, b = snug.shared(1.0, "a"), snug.shared(1, "b")
f = snug.function([], a + 1)
f.copy(swap={a: b})
