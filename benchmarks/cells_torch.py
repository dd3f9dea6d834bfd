"""The cells of cells.py in PyTorch, on commands from standard input: eager or compiled."""

import sys

import torch
import torch.nn.functional as F
from cells_table import PYHPC_KERNELS
from cells_worker import serve


class Functions:
    """The functions that cells are written in."""

    exp, log, tanh, sqrt, abs = torch.exp, torch.log, torch.tanh, torch.sqrt, torch.abs
    sin, erf = torch.sin, torch.erf
    where = torch.where
    argmax, cumsum = torch.argmax, torch.cumsum
    dot, matmul = torch.matmul, torch.matmul
    sigmoid = torch.sigmoid
    prod = torch.prod
    reshape, zeros_like = torch.reshape, torch.zeros_like

    @staticmethod
    def maximum(a, b):
        return torch.maximum(a, b) if torch.is_tensor(b) else torch.clamp(a, min=b)

    @staticmethod
    def minimum(a, b):
        return torch.minimum(a, b) if torch.is_tensor(b) else torch.clamp(a, max=b)

    @staticmethod
    def sum(x, axis=None, keepdims=False):
        return torch.sum(x) if axis is None else torch.sum(x, axis, keepdim=keepdims)

    @staticmethod
    def mean(x, axis=None, keepdims=False):
        return torch.mean(x) if axis is None else torch.mean(x, axis, keepdim=keepdims)

    @staticmethod
    def var(x, axis=None, keepdims=False):
        return torch.var(x, axis, unbiased=False, keepdim=keepdims)

    @staticmethod
    def max(x, axis=None, keepdims=False):
        return torch.max(x) if axis is None else torch.amax(x, axis, keepdim=keepdims)

    @staticmethod
    def sort(x, axis=-1):
        return torch.sort(x, dim=axis).values

    @staticmethod
    def softmax(x):
        return torch.softmax(x, -1)

    @staticmethod
    def logsumexp(x, axis):
        return torch.logsumexp(x, axis)

    @staticmethod
    def transpose(x, axes):
        return x.permute(axes)

    @staticmethod
    def concatenate(parts, axis):
        return torch.cat(parts, dim=axis)

    @staticmethod
    def take(x, index):
        return x[index]

    @staticmethod
    def pick(x, index):
        return torch.gather(x, 1, index[:, None])[:, 0]

    @staticmethod
    def add_at(x, index, values):
        return torch.index_add(x, 0, index, values)

    @staticmethod
    def set_slice(x, at, values):
        x = x.clone()
        x[at] = values
        return x

    @staticmethod
    def conv2d(x, w, stride=1, padding=0):
        return F.conv2d(x, w.flip(2, 3), stride=stride, padding=padding)

    @staticmethod
    def max_pool(x, size):
        return F.max_pool2d(x, size)

    @staticmethod
    def value_and_grads(loss, parameters, *rest):
        parameters = [p.detach().requires_grad_() for p in parameters]
        value = loss(*parameters, *rest)
        return (value.detach(), *torch.autograd.grad(value, parameters))


class WithCompiledLosses(Functions):
    """torch.compile takes the forward part and makes the backward part of it; asking for gradients
    is not compiled: it would be compiled anew in each call."""

    def __init__(self):
        self.losses = {}

    def value_and_grads(self, loss, parameters, *rest):
        if loss.__code__ not in self.losses:
            self.losses[loss.__code__] = torch.compile(loss)
        return Functions.value_and_grads(self.losses[loss.__code__], parameters, *rest)


def make(cell, arguments):
    compiled = sys.argv[1] == "compiled"
    functions = WithCompiledLosses() if compiled and cell.gradients else Functions
    arguments = [torch.from_numpy(a) for a in arguments]

    # A result that is a view of an argument has not been computed.
    def program(*a):
        result = cell.program(functions, *a)
        results = result if isinstance(result, tuple) else (result,)
        return tuple(r.contiguous() for r in results)

    function = program
    if compiled:
        torch._dynamo.reset()
        if not cell.gradients:
            function = torch.compile(program)

    def call():
        with torch.no_grad() if not cell.gradients else torch.enable_grad():
            return function(*arguments)

    return call


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[2]))
    files = dict.fromkeys(PYHPC_KERNELS, "pytorch")
    serve(make, torch.__version__, lambda results: results, files)
