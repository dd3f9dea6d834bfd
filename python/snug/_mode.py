"""How functions run: `Mode` and its kinds. Theano's names are accepted and mapped."""

from __future__ import annotations

from typing import Any, NamedTuple

from snug import _core
from snug._config import config
from snug._errors import error


class Defaults(NamedTuple):
    """What modes are made of where a program says nothing: Theano's flags set it."""

    linker: str | None = None
    optimizer: str = "default"
    excluding: tuple[str, ...] = ()
    including: tuple[str, ...] = ()
    nan_is_error: bool = True
    inf_is_error: bool = True
    big_is_error: bool = True


_defaults = Defaults()


def set_defaults(**chosen: Any) -> None:
    """Other defaults; those that are not given stay."""
    global _defaults
    _defaults = _defaults._replace(**chosen)


# What Theano calls the rewrites that one can leave out here.
_PASSES = {
    "canonicalize": "canonicalize",
    "constant_folding": "fold_constants",
    "fold_constants": "fold_constants",
    "ShapeOpt": "lift_shapes",
    "lift_shapes": "lift_shapes",
    "specialize": "simplify",
    "simplify": "simplify",
    "stabilize": "stabilize",
}
_SAVE_TIME = frozenset(("simplify",))
_OPTIONAL = frozenset(("constant_folding", "simplify", "stabilize"))
# What Theano's optimizers leave out, as far as it can be left out here. Those that compile fast
# keep the rewrites that keep digits.
_OPTIMIZERS: dict[str | None, frozenset[str]] = {
    None: _OPTIONAL,
    "None": _OPTIONAL,
    "merge": _OPTIONAL,
    "fast_compile": _SAVE_TIME,
    "o1": _SAVE_TIME,
    **dict.fromkeys(("default", "fast_run", "o2", "o3", "o4", "unsafe"), frozenset()),
}
_LINKERS = ("py", "c", "c|py", "c|py_nogc", "vm", "cvm", "vm_nogc", "cvm_nogc", "default")


class Mode:
    """Theano's Mode(linker, optimizer). There is one way to run a function here, so a linker
    changes nothing; optimizer=None leaves out the rewrites that can be left out, "fast_compile"
    those of them that only save time."""

    kind = "fast"
    guarded = (False, False, False)

    def __init__(self, linker: Any = None, optimizer: Any = "default"):
        if isinstance(linker, str) and linker not in _LINKERS:
            near = _core.nearest(linker, list(_LINKERS))
            raise error(
                ValueError,
                f"Mode: there is no linker '{linker}'",
                f"did you mean '{near}'?" if near else "linkers are " + ", ".join(_LINKERS),
            )
        if isinstance(optimizer, str) and optimizer not in _OPTIMIZERS:
            known = list(predefined_optimizers)
            near = _core.nearest(optimizer, known)
            raise error(
                ValueError,
                f"Mode: there is no optimizer '{optimizer}'",
                f"did you mean '{near}'?" if near else "optimizers are " + ", ".join(known),
            )
        self.provided_linker = linker
        self.provided_optimizer = optimizer
        named = optimizer is None or isinstance(optimizer, str)
        self.excluded: frozenset[str] = _OPTIMIZERS[optimizer] if named else frozenset()

    @property
    def linker(self) -> Any:
        return self.provided_linker

    @property
    def optimizer(self) -> Any:
        return self.provided_optimizer

    @property
    def disabled_passes(self) -> list[str]:
        """The passes that this mode leaves out."""
        return sorted({_PASSES[tag] for tag in self.excluded if tag in _PASSES})

    def _like(self, excluded: frozenset[str]) -> Mode:
        mode = type(self).__new__(type(self))
        mode.__dict__.update(self.__dict__)
        mode.excluded = excluded
        return mode

    def including(self, *tags: str) -> Mode:
        """This mode with rewrites that were left out."""
        return self._like(self.excluded - set(tags))

    def excluding(self, *tags: str) -> Mode:
        """This mode without these rewrites; tags of rewrites that do not exist here are ignored."""
        return self._like(self.excluded | set(tags))

    def requiring(self, *tags: str) -> Mode:
        """This mode: what Theano would require exists here or is not needed."""
        return self._like(self.excluded)

    def register(self, *optimizations: Any) -> Mode:
        raise error(
            NotImplementedError, "Mode.register: rewrites are tables of the compiler, not objects"
        )

    def clone(self, link_kwargs: Any = None, optimizer: Any = "", **kwargs: Any) -> Mode:
        """A copy, with another optimizer if one is given."""
        mode = self._like(self.excluded)
        if optimizer != "":
            fresh = Mode(self.provided_linker, optimizer)
            mode.provided_optimizer, mode.excluded = optimizer, fresh.excluded
        return mode

    def __str__(self) -> str:
        name = type(self).__name__
        return f"{name}(linker = {self.provided_linker}, optimizer = {self.provided_optimizer})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), str(self.provided_optimizer), self.excluded))


class _Named(Mode):
    def __init__(self, name: str, kind: str):
        super().__init__()
        self.name, self.kind = name, kind

    def __str__(self) -> str:
        return self.name


class DebugMode(Mode):
    """Every step is compared with the reference; a difference is an error that names it."""

    kind = "check"

    def __init__(self, optimizer: Any = "fast_run", linker: Any = None, **kwargs: Any):
        super().__init__(linker, optimizer)
        self.options = kwargs


class NanGuardMode(Mode):
    """Every argument and every result is looked through for nan, infinity and magnitudes above
    1e10. The error names the op and the line that built it."""

    kind = "guard"

    def __init__(
        self,
        nan_is_error: bool | None = None,
        inf_is_error: bool | None = None,
        big_is_error: bool | None = None,
        optimizer: Any = "default",
        linker: Any = None,
    ):
        super().__init__(linker, optimizer)
        given = (nan_is_error, inf_is_error, big_is_error)
        usual = (_defaults.nan_is_error, _defaults.inf_is_error, _defaults.big_is_error)
        self.guarded = tuple(
            default if flag is None else bool(flag) for flag, default in zip(given, usual)
        )


class MonitorMode(Mode):
    """Refused: Theano calls Python functions before and after every op, and ops are fused here."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise error(
            NotImplementedError,
            "MonitorMode: ops are fused into kernels, so there is no step per op to call back at",
            "NanGuardMode finds the op that makes a nan; f.explain() shows the steps",
        )


# Theano's linkers and optimizers are objects behind these names; here the names are all there is.
predefined_linkers = {name: name for name in _LINKERS}
predefined_optimizers = {name: name for name in _OPTIMIZERS if name is not None}
predefined_modes: dict[str, Mode] = {
    "fast": _Named("fast", "fast"),
    "check": _Named("check", "check"),
    "reference": _Named("reference", "reference"),
    "FAST_RUN": Mode("cvm", "fast_run"),
    "FAST_COMPILE": Mode("vm", "fast_compile"),
    "Mode": Mode(),
    "DebugMode": DebugMode(),
    "DEBUG_MODE": DebugMode(),
    "NanGuardMode": NanGuardMode(),
}


def register_mode(name: str, mode: Mode) -> None:
    """Gives a mode a name that function() knows."""
    if name in predefined_modes:
        raise error(ValueError, f"register_mode: there is already a mode '{name}'")
    predefined_modes[name] = mode


def get_mode(orig_string: Any) -> Mode:
    """The mode of a name; a Mode is its own, None is the one of config.mode with the rewrites that
    Theano's flags add and leave out."""
    if orig_string is None:
        mode = get_mode(config.mode)
        excluded = (mode.excluded - {*_defaults.including}) | {*_defaults.excluding}
        return mode if excluded == mode.excluded else mode._like(excluded)
    mode = orig_string
    if isinstance(mode, Mode):
        return mode
    if not isinstance(mode, str):
        raise error(
            TypeError,
            f"function: mode must be a string or a Mode, got {type(mode).__name__}",
            "modes are 'fast', 'check' and 'reference'",
        )
    if mode == "MonitorMode":
        return MonitorMode()
    if mode == "NanGuardMode":
        return NanGuardMode()
    if mode == "Mode":
        return Mode(_defaults.linker, _defaults.optimizer)
    if mode not in predefined_modes:
        near = _core.nearest(mode, list(predefined_modes))
        raise error(
            ValueError,
            f"function: there is no mode '{mode}'",
            f"did you mean '{near}'?" if near else "modes are 'fast', 'check' and 'reference'",
        )
    return predefined_modes[mode]


def get_default_mode() -> Mode:
    """The mode of functions that are given none."""
    return get_mode(None)
