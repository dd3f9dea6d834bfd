"""Theano's module of this name: convolutions."""

from snug.tensor.nnet import conv2d

__all__ = ["conv2d"]
