import snug

snug.config.flotX = "float64"
