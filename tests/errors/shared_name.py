import snug

snug.shared(3.0, name=3)
