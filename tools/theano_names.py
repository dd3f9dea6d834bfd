"""Which of Theano's names Snug has: those whose probe in tests/data/theano_probes.txt works. For
the others this module has the reason why not."""

from __future__ import annotations

import pathlib
import re
from typing import Any, NamedTuple

import numpy as np

import snug
import snug.tensor as T

DATA = pathlib.Path(__file__).parent.parent / "tests" / "data"

# Names that are to come with another issue; they do not count.
LATER = {
    "random numbers are an issue of their own": "raw_random shared_randomstreams",
}
# Names that Snug does not have.
WHY_NOT = {
    "sends tensors between processes by MPI; a function runs in one process": """
        MPIRecv MPIRecvWait MPISend MPISendWait irecv isend mpi_cmps mpi_keys mpi_send_wait_cmp
        mpi_send_wait_key mpi_tag_cmp mpi_tag_key recv send""",
    "writes C code for Theano's compiler": """
        ParamsType blas_c blas_headers elemwise_cgen inc_code""",
    "binds a second BLAS for Theano's own choice between two": "blas_scipy",
    "a rewrite of Theano's optimizer; ours are formula tables of the core": """
        nnet.crossentropy_to_crossentropy_with_softmax
        nnet.crossentropy_to_crossentropy_with_softmax_with_bias
        nnet.graph_merge_softmax_with_crossentropy_softmax nnet.opt nnet.softmax_simplifier
        opt_uncanonicalize""",
    "a hook of Theano's printer; ours reads the index itself": "SubtensorPrinter",
}


class Name(NamedTuple):
    """A name of one of Theano's namespaces."""

    namespace: str
    name: str
    kind: str

    @property
    def key(self) -> str:
        """How this module's tables and the probes call it."""
        return f"nnet.{self.name}" if self.namespace.endswith("nnet") else self.name


class Status(NamedTuple):
    """supported, later or no; why, unless supported; and the sample call."""

    status: str
    reason: str = ""
    sample: str = ""


def read_names() -> list[Name]:
    lines = (DATA / "theano_names.tsv").read_text().splitlines()
    return [Name(*line.split("\t")) for line in lines if not line.startswith("#")]


def read_probes() -> dict[str, str]:
    lines = (DATA / "theano_probes.txt").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if not line.startswith("#"))


# ---- the samples


def sample_values() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    x, y = rng.uniform(0.1, 0.9, (2, 3, 4))
    q = rng.uniform(-1, 1, (3, 3))
    return {
        "x": x,
        "y": y,
        "p": x / x.sum(1, keepdims=True),
        "v": rng.uniform(0.1, 0.9, 4),
        "w": rng.uniform(0.1, 0.9, 4),
        "s": np.array(0.7),
        "m": rng.integers(1, 7, (3, 4)),
        "n": rng.integers(1, 7, (3, 4)),
        "i": np.array([2, 0, 1]),
        "b": x > 0.4,
        "q": q @ q.T + 3 * np.eye(3),
        "t": rng.uniform(0.1, 0.9, (2, 3, 4)),
        "z": x + 1j * y,
    }


def raises(kind: type[BaseException], f: Any, *args: Any) -> bool:
    """Whether f(*args) raises this kind of exception."""
    try:
        f(*args)
    except kind:
        return True
    return False


def added(a: np.ndarray, index: Any, b: Any) -> np.ndarray:
    """a with b added at an index."""
    result = a.copy()
    np.add.at(result, index, b)
    return result


def softmax(a: np.ndarray) -> np.ndarray:
    return np.exp(a) / np.exp(a).sum(1, keepdims=True)


def hot(indices: np.ndarray) -> np.ndarray:
    return np.eye(4)[indices]


class Prober:
    """Runs probes over one set of sample variables."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.values, variables = sample_values(), {}
        for name, value in self.values.items():
            try:
                variables[name] = T.TensorType(value.dtype.name, (False,) * value.ndim)(name)
            except TypeError:
                continue  # a dtype that there is not: the probes that need it fail
        self.variables = variables
        file = directory / "x.npy"
        np.save(file, self.values["x"])
        self.names = {
            **variables,
            **{("TT" if k == "t" else k.upper()): v for k, v in self.values.items()},
            **{f.__name__: f for f in (raises, added, softmax, hot)},
            "FILE": str(file),
            "T": T,
            "np": np,
            "snug": snug,
        }

    def compute(self, result: Any) -> Any:
        """Expressions as their values; what is none, as it is."""
        several = isinstance(result, list)
        outputs = result if several else [result]
        if not outputs or not all(isinstance(y, snug.Variable) for y in outputs):
            return result
        inputs = list(self.variables.items())
        f = snug.function([v for _, v in inputs], outputs, on_unused_input="ignore")
        found = f(*(self.values[name] for name, _ in inputs))
        return found if several else found[0]

    def run(self, probe: str) -> str:
        """What is wrong with a probe; empty if nothing."""
        call, arrow, wanted = probe.partition(" -> ")
        try:
            with np.errstate(all="ignore"):
                got = self.compute(eval(call, self.names))
                if not arrow:
                    return "" if got is not False else f"{call} is False"
                want = eval(wanted, self.names)
                pairs = list(zip(got, want)) if isinstance(got, list) else [(got, want)]
                if isinstance(got, list) and len(got) != len(want):
                    return f"{call} gives {len(got)} results, not {len(want)}"
                for a, b in pairs:
                    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-12)
        except Exception as problem:
            return f"{type(problem).__name__}: {problem}"
        return ""


LETTERS = {
    **{"b": "int8", "w": "int16", "i": "int32", "l": "int64"},
    **{"f": "float32", "d": "float64", "c": "complex64", "z": "complex128"},
}


def type_probe(name: str) -> str:
    """The probe of a TensorType like imatrix, or of a plural like imatrices."""
    match = re.fullmatch(
        r"([bwilfdcz]?)(scalar|vector|row|col|matri(?=x|ces)|tensor[3-7])(s|x|ces)?", name
    )
    assert match, name
    letter, kind, plural = match.groups()
    pattern = {"scalar": (), "vector": (False,), "row": (True, False), "col": (False, True)}.get(
        kind, (False,) * (2 if kind == "matri" else int(kind[-1]) if kind[-1].isdigit() else 0)
    )
    dtype = f'"{LETTERS[letter]}"' if letter else "T.config.floatX"
    if plural in ("s", "ces"):
        made = f'T.{name}("a", "b")[1].type, T.{name}("ab")[0].type'
        return f"{{{made}}} == {{T.TensorType({dtype}, {pattern})}}"
    return f'T.{name}("a").type == T.TensorType({dtype}, {pattern})'


def probe_of(name: Name, probes: dict[str, str]) -> str | None:
    if name.key in probes:
        return probes[name.key]
    if name.kind in ("TensorType", "partial"):
        return type_probe(name.name)
    return None


def reasons(table: dict[str, str]) -> dict[str, str]:
    return {name: reason for reason, names in table.items() for name in names.split()}


def statuses(directory: pathlib.Path) -> tuple[dict[Name, Status], list[str]]:
    """The status of every name, and what is wrong: probes that fail, names with neither a probe nor
    a reason, reasons for names that work. The directory takes files of the samples."""
    prober, probes = Prober(directory), read_probes()
    later, why_not = reasons(LATER), reasons(WHY_NOT)
    found, problems = {}, []
    names = read_names()
    for name in names:
        probe = probe_of(name, probes)
        problem = prober.run(probe) if probe else "there is no probe"
        if name.key in why_not or (problem and name.key in later):
            if not problem:
                problems.append(f"{name.key}: its probe works, but there is a reason why not")
            reason = why_not.get(name.key) or later[name.key]
            found[name] = Status("no" if name.key in why_not else "later", reason)
        elif problem:
            problems.append(f"{name.key}: {problem}")
            found[name] = Status("no", "does not work yet")
        else:
            found[name] = Status("supported", "", probe.partition(" -> ")[0])
    unknown = {*probes, *later, *why_not} - {name.key for name in names}
    problems += [f"{key}: Theano has no such name" for key in sorted(unknown)]
    return found, problems


def counted(found: dict[Name, Status]) -> tuple[int, int]:
    """How many names are supported, of how many that are not another issue's."""
    other = reasons(LATER)
    kinds = [status.status for name, status in found.items() if name.key not in other]
    return kinds.count("supported"), len(kinds)
