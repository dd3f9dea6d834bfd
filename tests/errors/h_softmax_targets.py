import snug.tensor as T

x, W1, W2, b2 = T.matrix("x"), T.matrix("W1"), T.tensor3("W2"), T.matrix("b2")
b1, target = T.vector("b1"), T.vector("target")
T.nnet.h_softmax(x, 5, 10, 3, 4, W1, b1, W2, b2, target)
