import snug.tensor as T

x, w = T.tensor4("x"), T.tensor4("w")
T.nnet.conv2d(x, w, unshared=True)
