import snug.tensor as T

z = T.zmatrix("z")
T.fft.fft(z, norm="orthogonal")
