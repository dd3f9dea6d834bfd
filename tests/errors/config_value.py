import snug

snug.config.floatX = "int32"
