import theano
import theano.tensor as T
import numpy as np

# Define symbolic variables
x = T.matrix('x')
w = theano.shared(np.random.randn(10, 5).astype(theano.config.floatX))
b = theano.shared(np.random.randn(5).astype(theano.config.floatX))

# Define the computation (matrix multiplication + bias)
y = T.dot(x, w) + b

# Compile the Theano function
f = theano.function([x], y)

# Generate sample input data
x_data = np.random.randn(100, 10).astype(theano.config.floatX)

# Execute the function
result = f(x_data)

print(result.shape)
