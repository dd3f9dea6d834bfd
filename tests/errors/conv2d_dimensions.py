import snug.tensor as T

x, w = T.tensor3("x"), T.tensor4("w")
T.nnet.conv2d(x, w)
