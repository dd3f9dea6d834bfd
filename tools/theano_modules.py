"""Which names of Theano's modules Snug has, besides those of theano.tensor and theano.tensor.nnet:
those that the module has which `import theano...` finds. For the others this module has the reason
why not."""

from __future__ import annotations

import importlib
import types
from typing import Any, NamedTuple

from theano_names import DATA, Status, reasons

import snug
from snug import theano_alias
from snug._theano_parts import top

# Modules, or names of them, that are to come with another issue.
LATER = {
    "convolutions are an issue of their own": """
        tensor.nnet.abstract_conv tensor.nnet.conv tensor.nnet.neighbours tensor.signal.conv
        tensor.signal.pool""",
    "scan is an issue of its own": """
        foldl foldr reduce scan scan_checkpoints scan_module.scan scan_module.scan_utils""",
    "random numbers are an issue of their own": "tensor.shared_randomstreams",
}
# Kinds of objects that Snug does not have.
REWRITE = "a rewrite of Theano's optimizer, or a part of it; ours are tables of the compiler"
KINDS = dict.fromkeys(
    ("FromFunctionLocalOptimizer", "FromFunctionOptimizer", "LocalGroupDB", "LocalOptGroup"),
    REWRITE,
) | dict.fromkeys(("PatternSub", "Query", "SequenceDB", "TopoOptimizer"), REWRITE)
# Names, in whatever module, that Snug does not have.
WHY_NOT = {
    REWRITE: """
        AddDestroyHandler AddFeatureOptimizer Bookkeeper CachedConstantError
        CheckStackTraceOptimization CondMerge DB DestroyHandler EquilibriumDB EquilibriumOptimizer
        Feature History InconsistencyError LocalGroupDB LocalOptGroup LocalOptimizer
        MergeOptimizer NavigatorOptimizer NoOutputFromInplace NodeFinder OpKeyOptimizer OpRemove
        OpSub Optimizer PatternSub PrintCurrentFunctionGraph PrintListener ProxyDB Query
        ReplaceValidate ReplacementDidntRemovedError SeqOptimizer SequenceDB TopoOptimizer
        Validator inplace_optimizer local_optimizer local_useless opt optdb optimizer
        register_optimizer softmax_simplifier toolbox""",
    "there is one way to run a function here, so there are no linkers": """
        CLinker Container DualLinker Linker LocalLinker OpWiseCLinker PerformLinker WrapLinker
        WrapLinkerMany register_linker""",
    "it is a part of how Theano makes a function": """
        AliasedMemoryError Supervisor alias_root check_equal convert_function_input
        fgraph_updated_vars get_info_on_inputs infer_reuse_pattern insert_deepcopy iter_over_pairs
        orig_function rebuild_collect_shared register_checker std_fgraph view_tree_set
        io_connection_pattern nodes_constructed view_roots""",
    "it writes C code for Theano's compiler": """
        CDataType CDataTypeConstant CEnumType CLinkerObject CLinkerOp CLinkerType COp EnumList
        EnumType HideC OpenMPOp Params ParamsType register_deep_copy_op_c_code
        register_rebroadcast_c_code register_shape_c_code register_shape_i_c_code
        register_specify_shape_c_code register_view_op_c_code""",
    "ops are rows of the compiler, not Python classes": """
        FromFunctionOp Raise apply_meth as_op load_back simple_meth""",
    "all variables are tensors": """
        Generic SingletonType generic generic_constructor hashtype""",
    "Variable and Apply have no common class": "Node",
    "`pp` and `debugprint` write graphs": """
        as_string debug_error_message default_node_formatter op_as_string""",
    "a hook of Theano's printer; ours is a table": """
        DefaultPrinter DimShufflePrinter FunctionPrinter IgnorePrinter LeafPrinter OperatorPrinter
        PPrinter PatternPrinter PrinterState SubtensorPrinter default_printer hex_digest
        leaf_printer position_independent_str""",
    "the mode finds it itself; its errors are `InternalError`": """
        BadDestroyMap BadThunkOutput BadViewMap DataDestroyed InvalidValueError
        NoDuplicateOptWarningFilter StochasticOrder char_from_number check_eq contains_inf
        contains_nan data_destroyed f_compute f_gpua_absmax f_gpua_max f_gpua_min flatten""",
    "`debugprint` of `printing` is for graphs; this one is DebugMode's own": "debugprint",
    "there is no step per op to call back at": "detect_nan",
    "times of steps are in `f.explain()`": "ProfileStats ScanProfileStats",
    "pickle writes functions": "function_dump",
    "sizes have no op of their own; the function is `shape_i`": "shape_i_op",
    "memory is planned before a call": "OutputGuard",
    "a helper of Theano's own code": """
        ABORT ANY_TYPE D FAILURE FALL_THROUGH Keyword MetaObject RETRY add_tag_trace comm_guard
        disable_log_handler get_variable_trace_string has_handlers mode_not_slow
        simple_extract_stack test tests type_guard""",
    "pickles go through one function; there are no persistent ids to choose": """
        PersistentGpuArrayID PersistentNdarrayID PersistentNdarrayLoad PersistentSharedVariableID
        load_reduce zipadd""",
    "gradients are expressions of other ops": """
        CholeskyGrad EighGrad EigvalshGrad ExpmGrad MulWithoutZeros ProdWithoutZeros
        mul_without_zeros""",
    "the functions are `rfft` and `irfft`": "IRFFTOp RFFTOp irfft_op rfft_op",
    "batch normalisation is written with other ops": """
        AbstractBatchNormInference AbstractBatchNormTrain AbstractBatchNormTrainGrad BNComposite""",
    "a scalar op is the elementwise op of the same purpose": "ScalarSoftsign scalar_softsign",
    "`shared` makes all shared variables": "load_shared_variable scalar_constructor",
}


class Name(NamedTuple):
    """A name of one of Theano's modules."""

    module: str
    name: str
    kind: str


def read_names() -> list[Name]:
    lines = (DATA / "theano_modules.tsv").read_text().splitlines()
    return [Name(*line.split("\t")) for line in lines if not line.startswith("#")]


def counterparts() -> dict[str, Any]:
    """Theano's modules that there are, and what stands for them."""
    found: dict[str, Any] = {"theano": _theano()}
    for name, target in theano_alias.modules().items():
        if target:
            found[f"theano.{name}"] = importlib.import_module(target)
    return found


def _theano() -> types.SimpleNamespace:
    """What the module `theano` has."""
    below = [name for name in theano_alias.modules() if "." not in name]
    return types.SimpleNamespace(
        **dict.fromkeys((*below, *top.__all__, *snug.__all__, "change_flags"))
    )


def statuses() -> tuple[dict[Name, Status], list[str]]:
    """The status of every name, and what is wrong: names that are not there without a reason, and
    reasons for names that are."""
    there, later, why_not = counterparts(), reasons(LATER), reasons(WHY_NOT)
    found, problems = {}, []
    names = read_names()
    for name in names:
        inner = name.module.removeprefix("theano").removeprefix(".")
        full = f"{inner}.{name.name}".removeprefix(".")
        reason = later.get(full) or later.get(inner)
        if name.module in there and hasattr(there[name.module], name.name):
            found[name] = Status("supported")
        elif reason:
            found[name] = Status("later", reason)
        elif name.kind in KINDS or name.name in why_not:
            found[name] = Status("no", KINDS.get(name.kind) or why_not[name.name])
        else:
            found[name] = Status("no", "does not work yet")
            problems.append(f"{name.module}.{name.name}: is not there")
    needed = {name.name for name, status in found.items() if status.status == "no"}
    problems += [f"{name}: a reason for nothing" for name in sorted(why_not.keys() - needed)]
    return found, problems
