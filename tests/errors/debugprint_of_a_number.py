import snug

snug.debugprint([3])
