import snug.tensor as T

p, y = T.matrix("p"), T.lscalar("y")
T.nnet.categorical_crossentropy(p, y)
