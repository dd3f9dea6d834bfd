"""Theano's module names for programs that were written for Theano: `snug.install_as_theano()`.

`import theano` then finds the modules of this package: `theano.tensor` is `snug.tensor`. All names
are in one table; an import hook answers for `theano` and for every module below it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from importlib.machinery import ModuleSpec
from typing import Any

from snug import _core

VERSION = "1.0.5"  # of the Theano whose interface this is

# Theano's modules that have the same name in snug. Those that snug has not (yet) are not there.
_SAME = """
    compile compile.builders compile.debugmode compile.function compile.function_module compile.io
    compile.mode compile.monitormode compile.nanguardmode compile.ops compile.pfunc
    compile.sharedvalue
    gof gof.fg gof.graph gof.op gof.type gof.utils
    gradient ifelse printing scalar
    tensor tensor.basic tensor.blas tensor.elemwise tensor.extra_ops tensor.fft tensor.inplace
    tensor.io tensor.nlinalg tensor.opt tensor.raw_random tensor.shared_randomstreams
    tensor.sharedvar tensor.slinalg tensor.sort tensor.subtensor tensor.type tensor.type_other
    tensor.utils tensor.var tensor.xlogx
    tensor.nnet tensor.nnet.abstract_conv tensor.nnet.blocksparse tensor.nnet.bn tensor.nnet.conv
    tensor.nnet.conv3d2d tensor.nnet.corr tensor.nnet.corr3d tensor.nnet.ctc
    tensor.nnet.neighbours tensor.nnet.nnet tensor.nnet.sigm
    tensor.signal tensor.signal.conv tensor.signal.downsample tensor.signal.pool
    updates
"""
_GPU = "snug._theano_parts.gpuarray"
_SCAN = "snug._theano_parts.scan_module"
# Theano's modules that something else stands for; "" for one that only has modules below it.
_OTHERS = {
    "compat": "snug._theano_parts.compat",
    "compat.python2x": "snug._theano_parts.compat",
    "configdefaults": "snug._theano_config",
    "configparser": "snug._theano_config",
    **{f"gpuarray{part}": _GPU for part in ("", ".basic_ops", ".blas", ".dnn", ".type")},
    "misc": "",
    "misc.pkl_utils": "snug._theano_parts.pkl_utils",
    "raise_op": "snug.tensor.opt",
    "sandbox": "",
    **{f"sandbox.cuda{part}": _GPU for part in ("", ".basic_ops", ".blas", ".dnn", ".type")},
    "sandbox.linalg": "snug.tensor.nlinalg",
    "sandbox.rng_mrg": "snug._theano_parts.rng_mrg",
    "scalar.basic": "snug.scalar",
    **{f"scan_module{part}": _SCAN for part in ("", ".scan", ".scan_views")},
    "scan_module.scan_utils": "snug._theano_parts.scan_utils",
    "tensor.raw_random": "snug.tensor.shared_randomstreams",
    "version": "snug._theano_parts.version",
}
_REWRITES = "it has the rewrites of Theano's optimizer; ours are tables of the compiler"
# Modules that are not there, and why.
ABSENT = {
    "compile.profiling": "times of steps are in f.explain()",
    "gof.opt": _REWRITES,
    "gof.optdb": _REWRITES,
    "gof.toolbox": _REWRITES,
    "gof.link": "there is one way to run a function here, so there are no linkers",
    "gof.vm": "there is one way to run a function here, so there are no linkers",
    "gof.cmodule": "functions are no C modules here",
    "sparse": "there are no sparse tensors here",
    "tests": "the tests of Theano are about Theano",
    "typed_list": "there are no typed lists here",
}


def modules() -> dict[str, str]:
    """Theano's modules and what stands for them, parents before children."""
    same = {name: f"snug.{name}" for name in _SAME.split() if _exists(f"snug.{name}")}
    return dict(sorted({**_OTHERS, **same}.items()))


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # nor is its parent
        return False


def _reason(name: str) -> str:
    """Why a module below `theano` cannot be imported."""
    from snug._theano_parts import absent

    inner = name.removeprefix("theano.")
    for module, why in ABSENT.items():
        if inner == module or inner.startswith(module + "."):
            return f"no module named {name!r}: {why}"
    if inner.startswith(("gpuarray.", "sandbox.cuda.", "sandbox.gpuarray")):
        return f"no module named {name!r}: there is no GPU here"
    if inner in absent.reasons():
        return f"cannot import name {inner!r} from 'theano': {absent.reasons()[inner]}"
    if inner in _SAME.split():
        return f"no module named {name!r}: snug does not have it yet"
    near = _core.nearest(name, [n for n in sys.modules if n.startswith("theano")])
    return f"no module named {name!r}" + (f"; did you mean {near!r}?" if near else "")


class _Theano(types.ModuleType):
    """The module `theano`: the names of snug, with Theano's own configuration."""

    def __getattr__(self, name: str) -> Any:
        import snug
        from snug._theano_parts import absent, top

        for source in (top, snug):
            if name in source.__all__:
                return getattr(source, name)
        if name in ABSENT:
            raise AttributeError(_reason(f"theano.{name}"))
        if name in absent.reasons():
            raise absent.attribute_error("theano", name)
        near = _core.nearest(name, dir(self))
        hint = f"; did you mean {near!r}?" if near else ""
        raise AttributeError(f"module 'theano' has no attribute {name!r} in snug{hint}")

    def __dir__(self) -> list[str]:
        import snug
        from snug._theano_parts import top

        return sorted({*self.__dict__, *top.__all__, *snug.__all__})


class _Finder:
    """Finds `theano`, whose loading puts every module of the table in its place. Only those that
    are not there are asked for after that."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == "theano":
            return ModuleSpec(name, _Finder, is_package=True)
        if name.startswith("theano."):
            # Without a name: `from theano import name` passes it on.
            raise ModuleNotFoundError(_reason(name))
        package, _, child = name.rpartition(".")
        if package in ("snug.compile", "snug.gof"):  # `from theano.gof import name`
            from snug._theano_parts import absent

            if child in absent.reasons():
                raise ModuleNotFoundError(str(absent.attribute_error(package, child)))
        return None

    @staticmethod
    def create_module(spec: ModuleSpec) -> types.ModuleType:
        return _Theano(spec.name, "Theano's interface, by snug.")

    @staticmethod
    def exec_module(theano: types.ModuleType) -> None:
        from snug._theano_config import change_flags, theano_config

        theano.__dict__.update(__version__=VERSION, config=theano_config, change_flags=change_flags)
        for inner, target in modules().items():
            name = f"theano.{inner}"
            module = importlib.import_module(target) if target else types.ModuleType(name)
            if not target:
                module.__path__ = []
            sys.modules[name] = module
            parent, _, child = name.rpartition(".")
            # Modules of snug have their own; nothing is written into them.
            if parent == "theano" or not hasattr(sys.modules[parent], "__file__"):
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
