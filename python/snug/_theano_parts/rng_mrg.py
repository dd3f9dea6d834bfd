"""`theano.sandbox.rng_mrg`."""

from snug.tensor.shared_randomstreams import RandomStreams as MRG_RandomStreams

__all__ = ["MRG_RandomStreams"]
