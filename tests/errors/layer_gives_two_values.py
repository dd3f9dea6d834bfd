from snug import nn


class Two(nn.Layer):
    def forward(self, x):
        return x, 2 * x


Two().build((None, 4))
