from snug import nn


class Net(nn.Layer):
    pass


Net()
