"""Correlations over 3 axes as op classes."""

from __future__ import annotations

from snug.tensor.nnet._conv_classes import correlation_classes

_CLASSES = correlation_classes(3, __name__)
globals().update(_CLASSES)
__all__ = sorted(_CLASSES)
