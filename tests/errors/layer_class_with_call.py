from snug import nn


class Net(nn.Layer):
    def __call__(self, x):
        return x


Net()
