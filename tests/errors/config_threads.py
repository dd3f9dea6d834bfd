import snug

snug.config.threads = -1
