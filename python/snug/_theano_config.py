"""`theano.config` of programs that run as Theano programs: all flags of Theano 1.0 and those of
older versions that configuration files still have.

A flag with a meaning here changes `snug.config`; any other keeps its value and changes nothing,
which a note says once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from snug import _core
from snug._config import MODES, Bad, ChangedFlags
from snug._config import config as snug_config
from snug._devices import contexts, find
from snug._errors import error, say
from snug._mode import set_defaults
from snug._settings import Entry, as_bool, entries_of_files, entries_of_flags

_ON_ERROR = ("ignore", "warn", "raise", "pdb")
_NUMPY_ERROR = ("ignore", "warn", "raise", "call", "print", "log", "None")
_TRANSFORMS = ("fft", "fft_tiling", "winograd", "winograd_non_fused")
_CHOSEN = ("guess_once", "guess_on_shape_change", "time_once", "time_on_shape_change")
_VERSIONS = ("0.3", "0.4", "0.4.1", "0.5", "0.6", "0.7", "0.8", "0.8.1", "0.8.2", "0.9", "0.10")

# Modes of old versions, and what they are here. All others snug.config knows by their names.
_OLD_MODES = {"ProfileMode": "FAST_RUN", "PROFILE_MODE": "FAST_RUN"}
_MODES = (*(name for name in MODES if name not in ("fast", "check", "reference")), *_OLD_MODES)

# name: default, or (default, all values). A value is converted to the type of the default.
_FLAGS: dict[str, Any] = {
    "floatX": ("float64", ("float64", "float32", "float16")),
    "warn_float64": ("ignore", _ON_ERROR),
    "pickle_test_value": True,
    "cast_policy": ("custom", ("custom", "numpy+floatX")),
    "int_division": ("int", ("int", "raise", "floatX")),
    "deterministic": ("default", ("default", "more")),
    "device": "cpu",
    "init_gpu_device": "",
    "force_device": False,
    "conv.assert_shape": False,
    "print_global_stats": False,
    "contexts": "",
    "print_active_device": True,
    "gpuarray.sync": False,
    "gpuarray.preallocate": 0.0,
    "gpuarray.sched": ("default", ("default", "multi", "single")),
    "gpuarray.single_stream": True,
    "gpuarray.cache_path": "",
    "cuda.root": "",
    "cuda.include_path": "",
    "dnn.conv.workmem": "",
    "dnn.conv.workmem_bwd": "",
    "dnn.conv.algo_bwd": "",
    "dnn.conv.algo_fwd": (
        "small",
        ("small", "none", "large", *_TRANSFORMS, *_CHOSEN),
    ),
    "dnn.conv.algo_bwd_data": (
        "none",
        ("none", "deterministic", *_TRANSFORMS, *_CHOSEN),
    ),
    "dnn.conv.algo_bwd_filter": (
        "none",
        ("none", "deterministic", "small", *_TRANSFORMS, *_CHOSEN),
    ),
    "dnn.conv.precision": (
        "as_input_f32",
        ("as_input_f32", "as_input", "float16", "float32", "float64"),
    ),
    "dnn.base_path": "",
    "dnn.include_path": "",
    "dnn.library_path": "",
    "dnn.bin_path": "",
    "dnn.enabled": ("auto", ("auto", "True", "False", "no_check")),
    "magma.include_path": "",
    "magma.library_path": "",
    "magma.enabled": False,
    "ctc.root": "",
    "assert_no_cpu_op": ("ignore", _ON_ERROR),
    "mode": ("Mode", tuple(_MODES)),
    "cxx": "",
    "linker": ("cvm", ("cvm", "c|py", "py", "c", "c|py_nogc", "vm", "vm_nogc", "cvm_nogc")),
    "allow_gc": True,
    "optimizer": (
        "o4",
        ("o4", "o3", "o2", "o1", "unsafe", "fast_run", "fast_compile", "merge", "None"),
    ),
    "optimizer_verbose": False,
    "on_opt_error": ("warn", ("warn", "raise", "pdb", "ignore")),
    "nocleanup": False,
    "on_unused_input": ("raise", ("raise", "warn", "ignore")),
    "tensor.cmp_sloppy": 0,
    "tensor.local_elemwise_fusion": True,
    "tensor.insert_inplace_optimizer_validate_nb": -1,
    "gpu.local_elemwise_fusion": True,
    "lib.amdlibm": False,
    "gpuelemwise.sync": True,
    "traceback.limit": 8,
    "traceback.compile_limit": 0,
    "experimental.unpickle_gpu_on_cpu": False,
    "experimental.local_alloc_elemwise": True,
    "experimental.local_alloc_elemwise_assert": True,
    "numpy.seterr_all": ("ignore", _NUMPY_ERROR),
    "numpy.seterr_divide": ("None", _NUMPY_ERROR),
    "numpy.seterr_over": ("None", _NUMPY_ERROR),
    "numpy.seterr_under": ("None", _NUMPY_ERROR),
    "numpy.seterr_invalid": ("None", _NUMPY_ERROR),
    "warn.ignore_bug_before": (
        "0.9",
        ("None", "all", *_VERSIONS, "1.0", "1.0.1", "1.0.2", "1.0.3", "1.0.4", "1.0.5"),
    ),
    "warn.argmax_pushdown_bug": False,
    "warn.gpusum_01_011_0111_bug": False,
    "warn.sum_sum_bug": False,
    "warn.sum_div_dimshuffle_bug": False,
    "warn.subtensor_merge_bug": False,
    "warn.gpu_set_subtensor1": False,
    "warn.vm_gc_bug": False,
    "warn.signal_conv2d_interface": False,
    "warn.reduce_join": False,
    "warn.inc_set_subtensor1": False,
    "warn.round": False,
    "warn.inc_subtensor1_opt": True,
    "warn.identify_1pexp_bug": False,
    "compute_test_value": ("off", ("off", "ignore", "warn", "raise", "pdb")),
    "compute_test_value_opt": ("off", ("off", "ignore", "warn", "raise", "pdb")),
    "print_test_value": False,
    "unpickle_function": True,
    "reoptimize_unpickled_function": False,
    "exception_verbosity": ("low", ("low", "high")),
    "openmp": False,
    "openmp_elemwise_minsize": 200000,
    "check_input": True,
    "cache_optimizations": False,
    "unittests.rseed": "666",
    "NanGuardMode.nan_is_error": True,
    "NanGuardMode.inf_is_error": True,
    "NanGuardMode.big_is_error": True,
    "NanGuardMode.action": ("raise", ("raise", "warn", "pdb")),
    "optimizer_excluding": "",
    "optimizer_including": "",
    "optimizer_requiring": "",
    "DebugMode.patience": 10,
    "DebugMode.check_c": False,
    "DebugMode.check_py": True,
    "DebugMode.check_finite": True,
    "DebugMode.check_strides": 0,
    "DebugMode.warn_input_not_reused": True,
    "DebugMode.check_preallocated_output": "",
    "DebugMode.check_preallocated_output_ndim": 4,
    "profiling.time_thunks": True,
    "profiling.n_apply": 20,
    "profiling.n_ops": 20,
    "profiling.output_line_width": 512,
    "profiling.min_memory_size": 1024,
    "profiling.min_peak_memory": False,
    "profiling.destination": "stderr",
    "profiling.debugprint": False,
    "profiling.ignore_first_call": False,
    "optdb.position_cutoff": float("inf"),
    "optdb.max_use_ratio": 8.0,
    "gcc.cxxflags": "",
    "cmodule.warn_no_version": False,
    "cmodule.remove_gxx_opt": False,
    "cmodule.compilation_warning": False,
    "cmodule.preload_cache": False,
    "cmodule.age_thresh_use": 2073600,
    "cmodule.debug": False,
    "blas.ldflags": "",
    "blas.check_openmp": True,
    "metaopt.verbose": 0,
    "metaopt.optimizer_excluding": "",
    "metaopt.optimizer_including": "",
    "profile": False,
    "profile_optimizer": False,
    "profile_memory": False,
    "vm.lazy": "None",
    "on_shape_error": ("warn", ("warn", "raise")),
    "scan.allow_gc": False,
    "scan.allow_output_prealloc": True,
    "scan.debug": False,
    "compile.wait": 5,
    "compile.timeout": 120,
    "cycle_detection": ("regular", ("regular", "fast")),
    "check_stack_trace": ("off", ("off", "log", "warn", "raise")),
    "compiledir_format": "",
    "base_compiledir": os.path.expanduser("~/.theano"),
    "compiledir": os.path.expanduser("~/.theano"),
    # of versions before 1.0
    "home": "",
    "nvcc.fastmath": False,
    "nvcc.flags": "",
    "nvcc.compiler_bindir": "",
    "nvcc.cudafe": "",
    "nvcc.cxxflags": "",
    "lib.cnmem": 0.0,
    "cuda.disabled_msg": "",
    "cuda.enabled": True,
    "cublas.lib": "",
    "enable_initial_driver_test": True,
    "gpuarray.init_device": "",
    "reproducible": "default",
    "experimental.mrg": False,
    "ProfileMode.n_apply_to_print": 15,
    "ProfileMode.n_ops_to_print": 20,
    "ProfileMode.min_memory_size": 1024,
    "ProfileMode.profile_memory": False,
}
_GPUS = ("cuda", "gpu", "opencl")


class _Flags:
    """The flags: their values, and what happens when one is set."""

    def __init__(self) -> None:
        self.rows = dict(_FLAGS)
        self.values = {name: _default(row) for name, row in self.rows.items()}
        self.noted: set[str] = set()

    def known(self, name: str) -> bool:
        return name in self.rows or any(n.startswith(name + ".") for n in self.rows)

    def get(self, name: str) -> Any:
        return getattr(snug_config, name) if name in _SAME else self.values[name]

    def converted(self, name: str, value: Any) -> Any:
        """The value as one of the flag's type; Bad, which says what is allowed."""
        row = self.rows[name]
        default = _default(row)
        if isinstance(row, tuple):
            allowed = row[1]
            if str(value) in allowed:
                return str(value)
            raise Bad(f"{value!r} is not allowed", "choose one of " + _quoted(allowed))
        if name in ("device", "init_gpu_device"):
            if value == default or value == "cpu" or str(value).startswith(_GPUS):
                return str(value)
            raise Bad(f"{value!r} is not allowed", "choose 'cpu', 'cuda', 'cuda0', ...")
        try:
            if isinstance(default, bool):
                return as_bool(value)
            return type(default)(value)
        except (TypeError, ValueError):
            raise Bad(f"expected {_KINDS[type(default)]}, got {value!r}") from None

    def set(self, name: str, value: Any) -> list[str]:
        """Sets a flag; gives the names of those that change nothing."""
        new = self.converted(name, value)
        apply = _MEANINGS.get(name)
        if apply is not None:
            self.values[name] = apply(self, new)
            return []
        changed = new != self.values[name]
        self.values[name] = new
        return [name] if changed else []

    def note(self, names: Iterable[str]) -> None:
        fresh = [n for n in dict.fromkeys(names) if n not in self.noted]
        self.noted.update(fresh)
        if fresh:
            say("these Theano flags have no meaning here and change nothing: " + ", ".join(fresh))


def _default(row: Any) -> Any:
    return row[0] if isinstance(row, tuple) else row


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


_KINDS = {bool: "True or False", int: "an integer", float: "a number", str: "text"}


def _named(flags: _Flags, value: str) -> str | None:
    found = find(value)
    if found is None and flags.values["force_device"]:
        raise Bad(f"{value!r} is not there, and force_device is set")
    return found


def _set_device(flags: _Flags, value: str) -> str:
    found = _named(flags, value)
    snug_config.device = found or "cpu"
    return value if found else "cpu"


def _set_contexts(flags: _Flags, value: str) -> str:
    """Names of devices: "dev0->cuda0;dev1->cuda1"."""
    pairs = [entry.split("->") for entry in value.split(";") if entry]
    if not all(len(pair) == 2 for pair in pairs):
        raise Bad(f"{value!r} is not allowed", "write 'dev0->cuda0;dev1->cuda1'")
    contexts.clear()
    contexts.update({name.strip(): meant.strip() for name, meant in pairs})
    return value


def _set_mode(flags: _Flags, value: str) -> str:
    snug_config.mode = _OLD_MODES.get(value, value)
    return value


def _set_openmp(flags: _Flags, value: bool) -> bool:
    threads = os.environ.get("OMP_NUM_THREADS", "0")
    snug_config.threads = (int(threads) if threads.isdecimal() else 0) if value else 1
    return value


def _set_int_division(flags: _Flags, value: str) -> str:
    # In Python 3 Theano's x / y of integers is a float, whatever the flag says; 'int' is of
    # Python 2.
    snug_config.int_division = "raise" if value == "raise" else "floatX"
    return value


def _tags(value: str) -> tuple[str, ...]:
    return tuple(tag for tag in value.split(":") if tag)


def _of_modes(field: str, convert: Callable[[Any], Any] = lambda x: x) -> Any:
    """A flag that is a default of modes."""

    def apply(flags: _Flags, value: Any) -> Any:
        set_defaults(**{field: convert(value)})
        return value

    return apply


def _same(name: str) -> Callable[[_Flags, Any], Any]:
    def apply(flags: _Flags, value: Any) -> Any:
        setattr(snug_config, name, value)
        return value

    return apply


# Flags that are settings of snug, too.
_SAME = ("cast_policy", "compute_test_value", "floatX", "on_unused_input", "warn_float64")
# What setting a flag does; it gives the value that the flag then has.
_MEANINGS: dict[str, Callable[[_Flags, Any], Any]] = {
    "NanGuardMode.big_is_error": _of_modes("big_is_error"),
    "NanGuardMode.inf_is_error": _of_modes("inf_is_error"),
    "NanGuardMode.nan_is_error": _of_modes("nan_is_error"),
    "device": _set_device,
    "force_device": lambda flags, value: value,
    "init_gpu_device": lambda flags, value: value and (_named(flags, value) or ""),
    "contexts": _set_contexts,
    "int_division": _set_int_division,
    "linker": _of_modes("linker"),
    "mode": _set_mode,
    "optimizer": _of_modes("optimizer"),
    "optimizer_excluding": _of_modes("excluding", _tags),
    "optimizer_including": _of_modes("including", _tags),
    "openmp": _set_openmp,
    **{name: _same(name) for name in _SAME},
}


class Section:
    """The flags below one name: `config.gpuarray`, and `config` itself."""

    def __init__(self, flags: _Flags, prefix: str = ""):
        self.__dict__.update(_flags=flags, _prefix=prefix)

    def _unknown(self, name: str) -> Exception:
        near = _core.nearest(name, list(self._flags.rows))
        return error(
            AttributeError,
            f"Theano has no flag config.{name}",
            f"did you mean config.{near}?" if near else "",
        )

    def __getattr__(self, attribute: str) -> Any:
        name = self._prefix + attribute
        if name in self._flags.rows:
            return self._flags.get(name)
        if attribute.startswith("__") or not self._flags.known(name):
            raise self._unknown(name)
        return Section(self._flags, name + ".")

    def __setattr__(self, attribute: str, value: Any) -> None:
        name = self._prefix + attribute
        self._flags.note(self._set(name, value))

    def _get(self, name: str) -> Any:
        return self._flags.get(name)

    def _set(self, name: str, value: Any) -> list[str]:
        return self._with_flag(self._flags.set, name, value)

    def _with_flag(self, act: Callable[[str, Any], Any], name: str, value: Any) -> Any:
        """act(name, value) with the errors of a flag."""
        if name not in self._flags.rows:
            raise self._unknown(name)
        try:
            return act(name, value)
        except Bad as bad:
            raise error(ValueError, f"config.{name}: {bad.args[0]}", *bad.args[1:]) from None

    def __dir__(self) -> list[str]:
        names = [n[len(self._prefix) :] for n in self._flags.rows if n.startswith(self._prefix)]
        return sorted({n.split(".")[0] for n in names})

    def __str__(self) -> str:
        lines = []
        for name, row in self._flags.rows.items():
            if not name.startswith(self._prefix):
                continue
            kind = row[1] if isinstance(row, tuple) else type(row)
            meaning = "see snug.config" if name in _MEANINGS else "no meaning here"
            lines += [f"{name} ({kind})", f"    Doc:  {meaning}"]
            lines += [f"    Value:  {self._get(name)}", ""]
        return "\n".join(lines)


class TheanoConfig(Section):
    """`theano.config`."""

    def change_flags(self, args: Any = (), **settings: Any) -> ChangedFlags:
        """Other flags for the time of a `with` block, or as a decorator of a function. Names with
        a dot come in a dict: change_flags({"warn.round": True})."""
        wanted = {**dict(args), **settings}
        for name, value in wanted.items():  # fails at the user's line, not in the block
            self._with_flag(self._flags.converted, name, value)
        return ChangedFlags(self, wanted)

    def _start(self) -> None:
        """Reads .theanorc and THEANO_FLAGS, in which every name stands for Theano's default."""
        for name, default in (("floatX", "float64"), ("mode", "Mode")):
            if name not in snug_config._chosen:
                setattr(snug_config, name, default)
        self._flags.note(name for entry in self._entries() for name in self._read(entry))

    def _entries(self) -> list[Entry]:
        """What the files and the environment say; the last entry of a name counts."""
        lower = {name.lower(): name for name in self._flags.rows}  # ini files ignore case
        files = entries_of_files("THEANORC", "~/.theanorc")
        files = [e._replace(name=lower.get(e.name.lower(), e.name)) for e in files]
        return [*files, *entries_of_flags("THEANO_FLAGS")]

    def _read(self, entry: Entry) -> list[str]:
        if entry.name not in self._flags.rows:
            near = _core.nearest(entry.name, list(self._flags.rows))
            hint = f" (did you mean {near}?)" if near else ""
            say(f"{entry.place}: Theano has no flag {entry.name}{hint}")
            return []
        try:
            return self._flags.set(entry.name, entry.value)
        except Bad as bad:
            hint = f"\n  hint  {bad.args[1]}" if len(bad.args) > 1 else ""
            raise ValueError(f"{entry.place}: {entry.name}: {bad.args[0]}{hint}") from None


theano_config = config = TheanoConfig(_Flags())
change_flags = theano_config.change_flags


# ---- flags that programs add: theano.configparser.AddConfigVar("my.flag", "doc", IntParam(3))


class ConfigParam:
    """The default of a flag, and the values that it may have if these are few."""

    def __init__(self, default: Any, *allowed: Any, allow_override: bool = True):
        self.default, self.allowed = default, tuple(map(str, allowed))


class EnumStr(ConfigParam):
    def __init__(self, default: str, *options: str, **kwargs: Any):
        super().__init__(default, default, *options, **kwargs)


class TypedParam(ConfigParam):
    def __init__(self, default: Any, is_valid: Any = None, allow_override: bool = True):
        super().__init__(default)


BoolParam = IntParam = FloatParam = StrParam = TypedParam


def AddConfigVar(
    name: str, doc: str, configparam: ConfigParam, root: Any = None, in_c_key: bool = True
) -> None:
    """Adds a flag of the program's own. It is read from the environment and from files, too."""
    flags = theano_config._flags
    if flags.known(name):
        raise AttributeError(f"AddConfigVar: there is a flag {name} already")
    param = configparam
    flags.rows[name] = (param.default, param.allowed) if param.allowed else param.default
    flags.values[name] = param.default
    flags.noted.add(name)  # it has a meaning to the program
    for entry in theano_config._entries():
        if entry.name == name:
            theano_config._read(entry)
