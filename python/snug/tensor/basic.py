"""Theano's module of this name: the functions of `snug.tensor`."""

from snug.tensor import *  # noqa: F403
