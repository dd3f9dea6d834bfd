import snug

snug.config.memory = "4 cows"
