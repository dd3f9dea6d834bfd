"""`theano.scan_module` and the modules below it that have `scan` and what is made of it."""

from snug._theano_parts import scan_utils
from snug.loops import clone, foldl, foldr, map, reduce, scan, until

__all__ = ["clone", "foldl", "foldr", "map", "reduce", "scan", "scan_utils", "until"]
