"""Theano's module names for programs that were written for Theano: `snug.install_as_theano()`.

`import theano` then finds the modules of this package: `theano.tensor` is `snug.tensor`. All names
are in one table; an import hook answers for `theano` and for every module below it.
"""

from __future__ import annotations

import importlib
import sys
import types
from importlib.machinery import ModuleSpec
from typing import Any

from snug import _core

VERSION = "1.0.5"  # of the Theano whose interface this is

# Theano's modules and what stands for them; "" for one that only has modules below it.
_MODULES = {
    "theano.compat": "snug._theano_parts.compat",
    "theano.compat.python2x": "snug._theano_parts.compat",
    "theano.compile": "snug.compile",
    "theano.compile.debugmode": "snug.compile.debugmode",
    "theano.compile.function": "snug.compile.function",
    "theano.compile.function_module": "snug.compile",
    "theano.compile.io": "snug.compile.io",
    "theano.compile.mode": "snug.compile.mode",
    "theano.compile.monitormode": "snug.compile.monitormode",
    "theano.compile.nanguardmode": "snug.compile.nanguardmode",
    "theano.compile.ops": "snug.compile",
    "theano.compile.profiling": "snug.compile",
    "theano.compile.sharedvalue": "snug.compile.sharedvalue",
    "theano.configparser": "snug._theano_config",
    "theano.gof": "snug.gof",
    "theano.gof.graph": "snug.gof.graph",
    "theano.gof.op": "snug.gof",
    "theano.gof.opt": "snug.gof",
    "theano.gof.toolbox": "snug.gof",
    "theano.gof.type": "snug.gof",
    "theano.gof.utils": "snug.gof",
    "theano.gpuarray": "snug._theano_parts.gpuarray",
    "theano.gpuarray.basic_ops": "snug._theano_parts.gpuarray",
    "theano.gpuarray.blas": "snug._theano_parts.gpuarray",
    "theano.gpuarray.dnn": "snug._theano_parts.gpuarray",
    "theano.gpuarray.type": "snug._theano_parts.gpuarray",
    "theano.gradient": "snug.gradient",
    "theano.ifelse": "snug.ifelse",
    "theano.misc": "",
    "theano.misc.pkl_utils": "snug._theano_parts.pkl_utils",
    "theano.printing": "snug.printing",
    "theano.raise_op": "snug.tensor.opt",
    "theano.sandbox": "",
    "theano.sandbox.linalg": "snug.tensor.nlinalg",
    "theano.sandbox.rng_mrg": "snug._theano_parts.rng_mrg",
    "theano.scalar": "snug.scalar",
    "theano.scan_module": "snug.scan_module",
    "theano.tensor": "snug.tensor",
    "theano.tensor.basic": "snug.tensor.basic",
    "theano.tensor.blas": "snug.tensor.blas",
    "theano.tensor.elemwise": "snug.tensor.elemwise",
    "theano.tensor.extra_ops": "snug.tensor.extra_ops",
    "theano.tensor.fft": "snug.tensor.fft",
    "theano.tensor.inplace": "snug.tensor.inplace",
    "theano.tensor.io": "snug.tensor.io",
    "theano.tensor.nlinalg": "snug.tensor.nlinalg",
    "theano.tensor.nnet": "snug.tensor.nnet",
    "theano.tensor.nnet.abstract_conv": "snug.tensor.nnet.abstract_conv",
    "theano.tensor.nnet.blocksparse": "snug.tensor.nnet.blocksparse",
    "theano.tensor.nnet.bn": "snug.tensor.nnet.bn",
    "theano.tensor.nnet.conv": "snug.tensor.nnet.conv",
    "theano.tensor.nnet.conv3d2d": "snug.tensor.nnet.conv3d2d",
    "theano.tensor.nnet.corr": "snug.tensor.nnet.corr",
    "theano.tensor.nnet.corr3d": "snug.tensor.nnet.corr3d",
    "theano.tensor.nnet.ctc": "snug.tensor.nnet.ctc",
    "theano.tensor.nnet.neighbours": "snug.tensor.nnet.neighbours",
    "theano.tensor.nnet.nnet": "snug.tensor.nnet.nnet",
    "theano.tensor.nnet.sigm": "snug.tensor.nnet.sigm",
    "theano.tensor.opt": "snug.tensor.opt",
    "theano.tensor.raw_random": "snug.tensor.shared_randomstreams",
    "theano.tensor.shared_randomstreams": "snug.tensor.shared_randomstreams",
    "theano.tensor.sharedvar": "snug.tensor.sharedvar",
    "theano.tensor.signal": "snug.tensor.signal",
    "theano.tensor.signal.conv": "snug.tensor.signal.conv",
    "theano.tensor.signal.downsample": "snug.tensor.signal.downsample",
    "theano.tensor.signal.pool": "snug.tensor.signal.pool",
    "theano.tensor.slinalg": "snug.tensor.slinalg",
    "theano.tensor.sort": "snug.tensor.sort",
    "theano.tensor.subtensor": "snug.tensor.subtensor",
    "theano.tensor.type": "snug.tensor.type",
    "theano.tensor.type_other": "snug.tensor.type_other",
    "theano.tensor.utils": "snug.tensor.utils",
    "theano.tensor.var": "snug.tensor.var",
    "theano.tensor.xlogx": "snug.tensor.xlogx",
    "theano.updates": "snug.updates",
    "theano.version": "snug._theano_parts.version",
}
# Modules that are not there, and why.
_ABSENT = {
    "theano.sandbox.cuda": "Theano's old GPU interface; there is no GPU here",
    "theano.sandbox.gpuarray": "Theano's old GPU interface; there is no GPU here",
    "theano.sparse": "there are no sparse tensors here",
    "theano.typed_list": "there are no typed lists here",
}


def _found(name: str) -> types.ModuleType | None:
    """The module of this name, or None if snug does not have it."""
    parent, _, child = name.rpartition(".")
    before = vars(sys.modules[parent]).get(child) if parent in sys.modules else None
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not name.startswith(missing.name):
            raise  # the module is there and misses another one
        return None
    if before is not None and not isinstance(before, types.ModuleType):
        setattr(sys.modules[parent], child, before)  # a function of the module's name
    return module


def _reason(name: str) -> str:
    """Why a module below `theano` cannot be imported."""
    if name in _ABSENT:
        return f"no module named {name!r}: {_ABSENT[name]}"
    if name in _MODULES:
        return f"no module named {name!r}: snug does not have {_MODULES[name]!r}"
    near = _core.nearest(name, [n for n in _MODULES if n in sys.modules])
    return f"no module named {name!r}" + (f"; did you mean {near!r}?" if near else "")


class _Theano(types.ModuleType):
    """The module `theano`: the names of snug, with Theano's own configuration."""

    def __getattr__(self, name: str) -> Any:
        import snug

        if not name.startswith("_") and hasattr(snug, name):
            return getattr(snug, name)
        module = f"{self.__name__}.{name}"
        if module in _MODULES or module in _ABSENT:
            raise AttributeError(_reason(module))
        near = _core.nearest(name, dir(self))
        hint = f"; did you mean {near!r}?" if near else ""
        raise AttributeError(f"module 'theano' has no attribute {name!r} in snug{hint}")

    def __dir__(self) -> list[str]:
        import snug

        return sorted({*self.__dict__, *snug.__all__})


class _Finder:
    """Finds `theano`, whose loading puts every module of the table in its place. Only those that
    are not there are asked for after that."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == "theano":
            return ModuleSpec(name, _Finder, is_package=True)
        if name.startswith("theano."):
            raise ModuleNotFoundError(_reason(name), name=name)
        return None

    @staticmethod
    def create_module(spec: ModuleSpec) -> types.ModuleType:
        return _Theano(spec.name, "Theano's interface, by snug.")

    @staticmethod
    def exec_module(theano: types.ModuleType) -> None:
        from snug._theano_config import change_flags, theano_config

        theano.__dict__.update(__version__=VERSION, config=theano_config, change_flags=change_flags)
        for name, target in _MODULES.items():  # parents before children
            if target:
                module = _found(target)
            else:
                module = types.ModuleType(name)
                module.__path__ = []
            if module is None:
                continue
            sys.modules[name] = module
            parent, _, child = name.rpartition(".")
            # A function keeps its name: theano.tensor.var is one, and a module, too.
            if parent in sys.modules and not hasattr(sys.modules[parent], child):
                setattr(sys.modules[parent], child, module)
        theano_config._start()


def install() -> None:
    """Makes `import theano` find this package from now on, with Theano's defaults (floatX is
    float64 unless it was set) and the settings of THEANO_FLAGS and .theanorc."""
    if _Finder in sys.meta_path:
        return
    if "theano" in sys.modules:
        raise ImportError(
            "install_as_theano: another theano is imported already; call it before `import theano`"
        )
    sys.meta_path.insert(0, _Finder)  # before an installed Theano
