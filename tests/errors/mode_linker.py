import snug

snug.Mode(linker="cvmm")
