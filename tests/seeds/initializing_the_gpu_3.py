import theano
import theano.tensor as T
import numpy as np

# Define symbolic variables
x = T.matrix('x')
W = theano.shared(np.random.randn(5000, 5000).astype(theano.config.floatX), name='W')
b = theano.shared(np.random.randn(5000).astype(theano.config.floatX), name='b')

# Symbolic computation
y = T.dot(x, W) + b

# Create a Theano function for batch processing.
# the batch size should be optimized based on your available GPU memory.
batch_size = T.iscalar('batch_size')

# Using x[:batch_size,:]  will only process a small batch at a time,
#   reducing the amount of memory needed for a single forward pass.
f_batch = theano.function([x, batch_size], y[:batch_size,:])


# The input data should be processed by calling the f_batch
# function in a loop, using small batches.
