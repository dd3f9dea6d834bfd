import theano
import theano.tensor as T
import numpy as np

# Symbolic variables
x = T.matrix('x')
W = theano.shared(np.zeros((10000, 10000), dtype=theano.config.floatX), name='W') # Large shared variable
b = theano.shared(np.zeros((10000,), dtype=theano.config.floatX), name='b')

# Symbolic computation
y = T.dot(x, W) + b

# Compile theano function
f = theano.function([x], y)

# This compilation may fail on a GPU with less memory than required by W
# Even if x itself is a small matrix
