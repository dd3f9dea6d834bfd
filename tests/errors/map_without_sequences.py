import snug

snug.map(lambda x: x * 2, [])
