import snug.tensor as T

x = T.tensor3("x")
T.nnet.softmax(x)
