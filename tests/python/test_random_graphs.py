"""Random typed programs: NumPy, the reference interpreter and the compiled function must agree,
also with one rewrite pass left out. A failing program is printed as a list of steps; rerun it with
SNUG_GRAPH_SEED."""

import os

import numpy as np
import pytest

import snug
import snug.tensor as T

COUNT = int(os.environ.get("SNUG_GRAPHS", "10000" if os.environ.get("SNUG_LONG") else "2000"))
BATCHES = 40
PASSES = ["canonicalize", "fold_constants", "stabilize", "simplify", "lift_shapes"]
SIZES = [0, 1, 2, 3, 5, 17, 40]


class Program:
    """A list of (expression, NumPy value) pairs that grows by random steps."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.inputs, self.values, self.items, self.log = [], [], [], []
        self.sizes = self.rng.choice(SIZES, 3)
        for _ in range(self.rng.integers(1, 4)):
            self.add_input()
        for _ in range(self.rng.integers(2, 12)):
            self.step()

    def add_input(self):
        ndim = self.rng.integers(0, 4)
        dtype = self.rng.choice(["float64", "float64", "float32", "int32", "int8", "bool"])
        shape = tuple(int(s) for s in self.rng.choice(self.sizes, ndim))
        if dtype == "bool":
            value = self.rng.random(shape) < 0.5
        elif dtype.startswith("float"):
            value = self.rng.normal(size=shape).astype(dtype)
        else:
            value = self.rng.integers(-5, 6, shape).astype(dtype)
        value = np.asarray(value, dtype)
        x = T.TensorType(dtype, (False,) * ndim)(f"x{len(self.inputs)}")
        self.inputs.append(x)
        self.values.append(value)
        self.note(f"x{len(self.inputs) - 1} = {dtype}{shape}", x, value)

    def note(self, text, expression, value):
        self.log.append(f"{len(self.items)}: {text}")
        self.items.append((expression, np.asarray(value)))

    def pick(self, accept=lambda value: True):
        fitting = [k for k, (_, value) in enumerate(self.items) if accept(value)]
        return int(self.rng.choice(fitting)) if fitting else None

    def step(self):
        kinds = ["unary", "binary", "reduce", "shape", "slice", "compare", "dot", "join", "gather"]
        kinds += ["line", "arrange"]
        getattr(self, str(self.rng.choice(kinds)))()

    def unary(self):
        k = self.pick(lambda v: v.dtype.kind == "f")
        if k is None:
            return
        x, v = self.items[k]
        name, numpy_name = {
            "exp": ("exp", np.exp),
            "tanh": ("tanh", np.tanh),
            "neg": ("neg", np.negative),
            "abs": ("abs_", np.abs),
            "sqr": ("sqr", np.square),
            "sin": ("sin", np.sin),
            "floor": ("floor", np.floor),
            "sigmoid": ("nnet.sigmoid", lambda a: 1 / (1 + np.exp(-a))),
        }[str(self.rng.choice(["exp", "tanh", "neg", "abs", "sqr", "sin", "floor", "sigmoid"]))]
        if name == "exp" and v.size and np.max(v) > 20:
            return
        with np.errstate(all="ignore"):
            value = numpy_name(v).astype(v.dtype)
        function = T
        for part in name.split("."):
            function = getattr(function, part)
        self.note(f"{name}({k})", function(x), value)

    def binary(self):
        a = self.pick(lambda v: v.dtype != bool)
        if a is None:
            return
        x, v = self.items[a]
        b = self.pick(lambda w: w.dtype != bool and (w.shape == v.shape or w.ndim == 0))
        y, w = self.items[b]
        op = str(self.rng.choice(["add", "sub", "mul", "maximum", "minimum"]))
        expression = getattr(T, op)(x, y)
        numpy_op = {
            "sub": np.subtract,
            "mul": np.multiply,
            "add": np.add,
            "maximum": np.maximum,
            "minimum": np.minimum,
        }[op]
        dtype = expression.dtype
        with np.errstate(all="ignore"):
            self.note(f"{op}({a}, {b})", expression, numpy_op(v.astype(dtype), w.astype(dtype)))

    def compare(self):
        a = self.pick(lambda v: v.dtype.kind == "f")
        if a is None:
            return
        x, v = self.items[a]
        self.note(
            f"switch({a} > 0.25, {a}, -1)",
            T.switch(T.gt(x, 0.25), x, T.cast(-1, x.dtype)),
            np.where(v > 0.25, v, np.asarray(-1, v.dtype)),
        )

    def reduce(self):
        k = self.pick(lambda v: v.ndim > 0 and v.dtype != bool)
        if k is None:
            return
        x, v = self.items[k]
        axis = int(self.rng.integers(0, v.ndim)) if self.rng.random() < 0.7 else None
        keepdims = bool(self.rng.random() < 0.5)
        op = str(self.rng.choice(["sum", "max", "mean", "argmax"]))
        reduced = v.size if axis is None else v.shape[axis]
        if reduced == 0 and op != "sum":
            return
        expression = getattr(T, op)(x, axis=axis, keepdims=keepdims)
        wide = v.astype("float64") if v.dtype.kind == "f" else v.astype("int64")
        with np.errstate(all="ignore"):
            value = getattr(np, op)(wide, axis=axis, keepdims=keepdims)
        self.note(
            f"{op}({k}, axis={axis}, keepdims={keepdims})",
            expression,
            np.asarray(value).astype(expression.dtype),
        )

    def shape(self):
        k = self.pick(lambda v: 1 <= v.ndim <= 3)
        if k is None:
            return
        x, v = self.items[k]
        choice = self.rng.integers(0, 3)
        if choice == 0:
            order = [int(i) for i in self.rng.permutation(v.ndim)]
            self.note(f"{k}.dimshuffle({order})", x.dimshuffle(*order), v.transpose(order))
        elif choice == 1:
            self.note(f"{k}.flatten()", x.flatten(), v.flatten())
        else:
            self.note(
                f"{k}.reshape((-1, shape[-1]))" if v.size else f"{k}.T",
                x.reshape((-1, x.shape[v.ndim - 1])) if v.size else x.T,
                v.reshape((-1, v.shape[-1])) if v.size else v.T,
            )

    def slice(self):
        k = self.pick(lambda v: v.ndim > 0 and v.shape[0] > 0)
        if k is None:
            return
        x, v = self.items[k]
        low, high = sorted(int(i) for i in self.rng.integers(-v.shape[0], v.shape[0] + 1, 2))
        step = int(self.rng.choice([1, 1, 2, -1]))
        if step < 0:
            low, high = high, low
        self.note(f"{k}[{low}:{high}:{step}]", x[low:high:step], v[low:high:step])

    def dot(self):
        a = self.pick(lambda v: v.ndim == 2 and v.dtype.kind == "f")
        if a is None:
            return
        x, v = self.items[a]
        self.note(
            f"dot({a}, {a}.T)",
            T.dot(x, x.T),
            (v.astype("float64") @ v.astype("float64").T).astype(v.dtype),
        )

    def join(self):
        a = self.pick(lambda v: v.ndim > 0)
        if a is None:
            return
        x, v = self.items[a]
        axis = int(self.rng.integers(0, v.ndim))
        self.note(
            f"concatenate([{a}, {a}], {axis})",
            T.concatenate([x, x], axis=axis),
            np.concatenate([v, v], axis=axis),
        )

    def gather(self):
        a = self.pick(lambda v: v.ndim > 0 and v.shape[0] > 0)
        if a is None:
            return
        x, v = self.items[a]
        index = self.rng.integers(-v.shape[0], v.shape[0], int(self.rng.integers(0, 6)))
        self.note(f"{a}[{index.tolist()}]", x[T.constant(index.astype("int64"))], v[index])

    def line(self):
        k = self.pick(lambda v: v.ndim > 0 and v.dtype != bool)
        if k is None:
            return
        x, v = self.items[k]
        axis = int(self.rng.integers(0, v.ndim))
        op = str(self.rng.choice(["sort", "cumsum", "topk"]))
        expression = T.topk(x, 1, axis) if op == "topk" else getattr(T, op)(x, axis)
        if op == "topk" and v.shape[axis] == 0:
            return
        wide = v.astype("float64") if v.dtype.kind == "f" else v.astype("int64")
        value = np.max(wide, axis, keepdims=True) if op == "topk" else getattr(np, op)(wide, axis)
        self.note(f"{op}({k}, axis={axis})", expression, value.astype(expression.dtype))

    def arrange(self):
        k = self.pick(lambda v: v.ndim > 0 and 0 < v.size < 5000)
        if k is None:
            return
        x, v = self.items[k]
        axis = int(self.rng.integers(0, v.ndim))
        op = str(self.rng.choice(["flip", "roll", "repeat", "tile", "pad", "diff"]))
        rest = {
            "flip": (axis,),
            "roll": (2, axis),
            "repeat": (2, axis),
            "tile": (2,),
            "pad": (1, "edge"),
            "diff": (1, axis),
        }[op]
        self.note(f"{op}({k}, {rest})", getattr(T, op)(x, *rest), getattr(np, op)(v, *rest))


def tolerance(program):
    """What rounding may do: as much as the least precise float type of the program does."""
    return 2e-4 if any(v.dtype == np.float32 for _, v in program.items) else 1e-9


def compare(name, got, want, reference, rtol):
    assert got.dtype == reference.dtype, f"{name}: {got.dtype} and {reference.dtype}"
    assert got.shape == want.shape, f"{name}: {got.shape} and {want.shape}"
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, reference, err_msg=name)
        return
    finite = np.abs(reference[np.isfinite(reference)])
    scale = max(1.0, float(finite.max()) if finite.size else 1.0)
    np.testing.assert_allclose(got, reference, rtol=rtol, atol=rtol * scale, err_msg=name)
    np.testing.assert_allclose(got, want, rtol=10 * rtol, atol=10 * rtol * scale, err_msg=name)


def run_one(seed):
    program = Program(seed)
    outputs = [program.items[-1], program.items[program.rng.integers(0, len(program.items))]]
    expressions = [e for e, _ in outputs]
    options = {"on_unused_input": "ignore"}
    if any(v.dtype.kind == "f" and not np.all(np.isfinite(v)) for _, v in program.items):
        return
    try:
        reference = snug.function(program.inputs, expressions, mode="reference", **options)(
            *program.values
        )
        left_out = str(program.rng.choice(PASSES))
        for name, extra in [
            ("compiled", {}),
            (f"without {left_out}", {"disabled_passes": [left_out]}),
        ]:
            got = snug.function(program.inputs, expressions, **extra, **options)(*program.values)
            for k, (_, want) in enumerate(outputs):
                compare(f"{name}, output {k}", got[k], want, reference[k], tolerance(program))
    except Exception as error:
        steps = "\n".join(program.log)
        raise AssertionError(
            f"SNUG_GRAPH_SEED={seed}\n{steps}\n{type(error).__name__}: {error}"
        ) from error


if "SNUG_GRAPH_SEED" in os.environ:

    def test_one_graph():
        run_one(int(os.environ["SNUG_GRAPH_SEED"]))

else:

    @pytest.mark.parametrize("batch", range(BATCHES))
    def test_random_graphs(batch):
        share = COUNT // BATCHES
        for seed in range(batch * share, (batch + 1) * share):
            run_one(seed)
