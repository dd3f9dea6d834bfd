import snug.tensor as T

x, dy = T.tensor4("x"), T.tensor4("dy")
T.nnet.conv2d_grad_wrt_weights(x, dy, (5, 3, 3))
