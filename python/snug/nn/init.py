"""How parameters start. A layer also takes the name, as in weight="he_normal", or an array."""

from snug._core import init_constant as constant
from snug._core import init_glorot_normal as glorot_normal
from snug._core import init_glorot_uniform as glorot_uniform
from snug._core import init_he_normal as he_normal
from snug._core import init_he_uniform as he_uniform
from snug._core import init_lecun_normal as lecun_normal
from snug._core import init_lecun_uniform as lecun_uniform
from snug._core import init_normal as normal
from snug._core import init_orthogonal as orthogonal
from snug._core import init_uniform as uniform

__all__ = [
    "constant",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "orthogonal",
    "uniform",
]
