"""Types of variables: all of them are tensors."""

from snug._core import TensorType

Type = PureType = TensorType

__all__ = ["PureType", "Type"]
