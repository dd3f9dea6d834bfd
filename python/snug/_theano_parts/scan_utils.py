"""`theano.scan_module.scan_utils`: the tools of it that are about graphs."""

from snug.gof.graph import equal_computations, map_variables
from snug.loops import clone, until

__all__ = ["clone", "equal_computations", "map_variables", "until"]
