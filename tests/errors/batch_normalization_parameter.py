import snug.tensor as T

x, g, b = T.tensor4("x"), T.vector("g"), T.matrix("b")
T.nnet.bn.batch_normalization_train(x, g, b, axes="spatial")
