"""Sigmoids and softplus."""

from snug._core import hard_sigmoid, sigmoid, softplus, ultra_fast_sigmoid

__all__ = ["hard_sigmoid", "sigmoid", "softplus", "ultra_fast_sigmoid"]
