"""Names of Theano's modules that Snug does not have, in whatever module they are, and why."""

from __future__ import annotations

import functools

REWRITE = "a rewrite of Theano's optimizer, or a part of it; ours are tables of the compiler"
_NAMES = {
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
    "it is a part of how Theano makes a scan": """
        compress_outs expand_empty forced_replace get_updates_and_outputs hash_listsDictsTuples
        infer_shape isNaN_or_Inf_or_None reconstruct_graph safe_new scan_args
        scan_can_remove_outs traverse""",
    "gradients of a scan keep the states of all steps": "scan_checkpoints",
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


@functools.cache
def reasons() -> dict[str, str]:
    """{name: why it is not there}."""
    return {name: reason for reason, names in _NAMES.items() for name in names.split()}


def attribute_error(module: str, name: str) -> AttributeError:
    """What a module says of a name that it does not have."""
    why = reasons().get(name)
    tail = f": {why}" if why else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{tail}")
