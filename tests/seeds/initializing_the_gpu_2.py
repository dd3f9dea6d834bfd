import theano
import theano.tensor as T
import numpy as np

# Symbolic variables
x = T.matrix('x')
# Smaller shared variable, initialized with a small matrix
W = theano.shared(np.zeros((10, 10), dtype=theano.config.floatX), name='W')
b = theano.shared(np.zeros((10,), dtype=theano.config.floatX), name='b')


# Symbolic computation
y = T.dot(x, W) + b

# Function to update W (for example, during training)
W_update = T.matrix('W_update')
update_w = theano.function([W_update], [], updates=[(W, W_update)])

# Compile theano function
f = theano.function([x], y)


# Usage:
#1.  Initialize W with the small dimensions (e.g. 10x10 matrix).
#2.  If your data is of a larger size, like 10000x10000 in this example
#   you'll have to perform several smaller matrix multiplications or a
#   loop of updating the W variable, instead of one huge matmult.
#   W can be expanded using the update_w function, if it is required by the dataset.
#   This expansion would be done progressively (or in stages) during the learning.
