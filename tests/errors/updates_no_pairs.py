import snug

n = snug.shared(0, "n")
snug.function([], n, updates=[n])
