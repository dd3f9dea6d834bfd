import snug

snug.shared("weights")
