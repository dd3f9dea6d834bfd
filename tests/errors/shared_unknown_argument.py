import snug

snug.shared(1.0, borow=True)
