import snug

snug.config.floatX = "float31"
