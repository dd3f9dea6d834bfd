"""Correlations over 2 axes as op classes."""

from __future__ import annotations

from snug.tensor.nnet._conv_classes import correlation_classes

__all__ = ["CorrMM", "CorrMM_gradInputs", "CorrMM_gradWeights"]

globals().update(correlation_classes(2, __name__))
