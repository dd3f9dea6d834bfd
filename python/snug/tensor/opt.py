"""Theano's module of this name, as far as programs build expressions with it. Snug's own rewrites
are tables of formulas in its core and are chosen by `function(disabled_passes=...)`."""

from snug.tensor._op_classes import MakeVector, make_vector

__all__ = ["MakeVector", "make_vector"]
