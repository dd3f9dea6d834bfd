"""Correlations over 3 axes as op classes."""

from __future__ import annotations

from snug.tensor.nnet._conv_classes import correlation_classes

__all__ = ["Corr3dMM", "Corr3dMM_gradInputs", "Corr3dMM_gradWeights"]

globals().update(correlation_classes(3, __name__))
