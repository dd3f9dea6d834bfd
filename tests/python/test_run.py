"""`snug run`: programs written for Theano, as they are."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SEEDS = Path(__file__).parent.parent / "seeds"
TOOL = Path(sys.executable).with_name("snug")


def start(*arguments, cwd=None, env=None, **options):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("THEANO", "SNUG_FLAGS"))}
    clean |= {"HOME": "/nonexistent", "SNUG_CACHE_DIR": os.environ.get("SNUG_CACHE_DIR", "")}
    return subprocess.Popen(
        [sys.executable, "-m", "snug", *map(str, arguments)],
        cwd=cwd,
        env=clean | (env or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def snug(*arguments, **options):
    process = start(*arguments, **options)
    process.out, process.err = process.communicate(timeout=300)
    return process


def script(folder, text, name="script.py"):
    (folder / name).write_text(text)
    return name


def run(folder, text, *arguments, **options):
    """Runs a program that must succeed; gives what it prints."""
    done = snug("run", script(folder, text), *arguments, cwd=folder, **options)
    assert done.returncode == 0, done.err
    return done


# ---- the programs of the articles


@pytest.mark.parametrize("name", sorted(p.stem for p in SEEDS.glob("*.py")))
def test_seed(name):
    done = snug("run", SEEDS / f"{name}.py")
    assert done.returncode == 0, done.err
    program = name.removesuffix("_used")
    if program in ("rarely_using_the_gpu_2", "rarely_using_the_gpu_3"):
        assert done.err == ("snug: there is no GPU for device = 'cuda': functions run on the CPU\n")
    else:
        assert done.err == ""
    expected = {
        "initializing_the_gpu_1_used": "W times ones plus b is b\n",
        "initializing_the_gpu_2_used": "W grew to (40, 40)\n",
        "initializing_the_gpu_3_used": "batches of 1, 8, 32 and 100 rows\n",
    }
    if program == "rarely_using_the_gpu_1":
        assert done.out == "(100, 5)\n"
    elif program.startswith("rarely"):
        assert "xecution time: " in done.out and " seconds\n" in done.out
    else:
        assert done.out == expected.get(name, "")


# ---- as Python itself runs a program


def test_what_a_program_sees(tmp_path):
    text = """
import sys, __main__
print(__name__, __file__, sys.argv, sys.path[0], __main__.__dict__ is globals())
print(__package__, __spec__, __doc__, type(__loader__), type(__builtins__), sorted(globals()))
"""
    done = run(tmp_path, text, "-a", "b c")
    plain = subprocess.run(
        [sys.executable, "script.py", "-a", "b c"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.out == plain.stdout
    assert done.err == ""


def test_modules_beside_the_program(tmp_path):
    script(tmp_path, "import theano.tensor as T\nx = T.vector('x')\n", "model.py")
    assert run(tmp_path, "from model import x\nprint(x.dtype)").out == "float64\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [("raise SystemExit(3)", 3), ("import sys; sys.exit('no')", 1), ("1 / 0", 1), ("", 0)],
)
def test_exit_codes(tmp_path, text, code):
    assert snug("run", script(tmp_path, text), cwd=tmp_path).returncode == code


def test_tracebacks_begin_in_the_program(tmp_path):
    text = "def f():\n    return 1 / 0\nf()\n"
    done = snug("run", script(tmp_path, text), cwd=tmp_path)
    plain = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.err == plain.stderr


def test_errors_name_the_line_of_the_program(tmp_path):
    text = "import theano.tensor as T\nT.dot(T.matrix(), T.tensor3().x)\n"
    assert "line 2" in snug("run", script(tmp_path, text), cwd=tmp_path).err
    text = "import theano.tensor as T\nT.zeros((2, 3)) + T.zeros((2, 4))\n"
    err = snug("run", script(tmp_path, text), cwd=tmp_path).err
    assert f"at    {tmp_path}/script.py:2\n" in err and "runpy" not in err


def test_ctrl_c(tmp_path):
    text = "import time\nprint('ready', flush=True)\ntime.sleep(60)\n"
    process = start(
        "run",
        script(tmp_path, text),
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert err.endswith("KeyboardInterrupt\n") and "runpy" not in err and "_run.py" not in err


def test_files_that_are_no_programs(tmp_path):
    for name, problem in (
        ("missing.py", "there is no such file"),
        (".", "is a directory"),
        ("missing/script.py", "there is no such file"),
    ):
        done = snug("run", name, cwd=tmp_path)
        assert done.returncode == 2
        assert done.err == f"snug run: {name}: {problem}\n"


def test_python_2_says_so(tmp_path):
    for text, line in (
        ("x = 1\nprint 'hello'\n", 2),
        ("try:\n    pass\nexcept IOError, e:\n    pass\n", 3),
        ("x = 10L\n", 1),
        ("raise ValueError, 'x'\n", 1),
        ("exec 'x = 1'\n", 1),
        ("x = 1 <> 2\n", 1),
    ):
        done = snug("run", script(tmp_path, text), cwd=tmp_path)
        assert done.returncode == 1
        assert "SyntaxError" in done.err
        assert done.err.endswith(
            f"snug run: line {line} of {tmp_path}/script.py is Python 2, and this is Python 3\n"
            f"  hint  convert it: 2to3 -w {tmp_path}/script.py\n"
        )
    for text in ("for i in xrange(3):\n    pass\n", "{}.iteritems()\n"):
        done = snug("run", script(tmp_path, text), cwd=tmp_path)
        assert f"line 1 of {tmp_path}/script.py is Python 2" in done.err
    done = snug("run", script(tmp_path, "x = (1,\n"), cwd=tmp_path)
    assert "SyntaxError" in done.err and "Python 2" not in done.err


def test_help_and_wrong_commands():
    assert snug().out == snug("--help").out and "run SCRIPT" in snug().out
    assert snug("--version").out.startswith("snug ")
    for arguments, text in ((["rum"], "unknown command 'rum'"), (["run"], "which script?")):
        done = snug(*arguments)
        assert done.returncode == 2 and text in done.err


def test_the_tool(tmp_path):
    name = script(tmp_path, "import sys, theano\nprint(theano.__version__, sys.argv)\n")
    done = subprocess.run([TOOL, "run", name, "-x"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "1.0.5 ['script.py', '-x']\n" and done.returncode == 0
    alone = tmp_path / "snug"
    alone.write_bytes(TOOL.read_bytes())
    alone.chmod(0o755)
    libraries = subprocess.run(["ldd", TOOL], capture_output=True, text=True).stdout
    found = [part for line in libraries.splitlines() for part in line.split() if "libsnug" in part]
    env = os.environ | {"LD_LIBRARY_PATH": os.path.dirname(found[-1])}
    done = subprocess.run([alone, "run", name], capture_output=True, text=True, env=env)
    assert done.returncode == 1 and "there is no Python beside" in done.stderr


# ---- old names


def test_old_names(tmp_path):
    text = """
import collections, cPickle, cStringIO, Queue, inspect, numpy as np
from six.moves import cPickle as pickle, range, xrange, zip
from six import string_types, iteritems
import six.moves.cPickle, six.moves.urllib.request
assert np.float is float and np.int is int and np.object is object and np.asscalar(np.ones(1)) == 1
assert np.bool(1) == True and np.product([2, 3]) == 6 and np.Inf == np.inf and np.unicode is str
assert collections.Mapping is collections.abc.Mapping and collections.Callable
assert cPickle.loads(cPickle.dumps([1])) == [1] and pickle is cPickle
assert inspect.getargspec(lambda a, *b: 0).args == ["a"]
assert list(iteritems({1: 2})) == [(1, 2)] and Queue.Queue and cStringIO.StringIO
"""
    done = run(tmp_path, text)
    assert done.out == done.err == ""


# ---- names of modules

MODULES = """
import theano
import theano.tensor as T
import theano.tensor.nnet, theano.tensor.nnet.nnet, theano.tensor.nnet.sigm, theano.tensor.extra_ops
import theano.tensor.basic, theano.tensor.var, theano.tensor.type, theano.tensor.sharedvar
import theano.tensor.shared_randomstreams, theano.tensor.slinalg, theano.sandbox.rng_mrg
import theano.printing, theano.gradient, theano.updates, theano.misc.pkl_utils, theano.gpuarray.dnn
from theano.tensor.var import TensorVariable
from theano.tensor.shared_randomstreams import RandomStreams
from theano.sandbox.rng_mrg import MRG_RandomStreams
from theano import config, function, shared, printing, tensor, gpuarray
import snug
assert theano.tensor is snug.tensor is T is tensor and T.nnet is snug.tensor.nnet
assert theano.printing is snug.printing and theano.gradient is snug.gradient
assert T.var(T.matrix()).ndim == 0 and T.nnet.nnet.sigmoid is T.nnet.sigmoid
assert theano.function is snug.function and theano.Variable is snug.Variable
assert theano.__version__ == theano.version.version == "1.0.5"
assert theano.OrderedUpdates is theano.updates.OrderedUpdates
assert gpuarray.pygpu_activated is False and not gpuarray.dnn.dnn_present()
assert "no GPU" in gpuarray.dnn.dnn_present.msg
import theano.sandbox.cuda.dnn
from theano.sandbox.cuda.basic_ops import gpu_contiguous
assert not theano.sandbox.cuda.cuda_available and not theano.sandbox.cuda.dnn.dnn_available()
for name in ("theano.gof.opt", "theano.sparse", "theano.sparse.basic", "theano.tensr"):
    try:
        __import__(name)
    except ImportError as e:
        print(e)
    else:
        raise AssertionError(name)
for name in ("scann", "sparse", "as_op"):
    try:
        getattr(theano, name)
    except AttributeError as e:
        print(e)
for line in ("from theano.gof import local_optimizer", "from theano import scan_checkpoints",
             "import theano.sandbox.cuda.var"):
    try:
        exec(line)
    except ImportError as e:
        print(e)

class Twice(theano.Op):
    def __init__(self, n):
        self.n = n

try:
    Twice(2)
except NotImplementedError as e:
    print(e)
assert "function" in dir(theano) and not hasattr(theano, "no_such_name")
"""


def test_modules(tmp_path):
    lines = run(tmp_path, MODULES).out.splitlines()
    assert lines[0].startswith("no module named 'theano.gof.opt': it has the rewrites of Theano's")
    assert lines[1] == "no module named 'theano.sparse': there are no sparse tensors here"
    assert lines[3] == "no module named 'theano.tensr'; did you mean 'theano.tensor'?"
    assert lines[4].startswith("module 'theano' has no attribute 'scann' in snug")
    assert lines[5] == lines[1]
    assert lines[6].endswith("'as_op': ops are rows of the compiler, not Python classes")
    assert "'local_optimizer': a rewrite of Theano's optimizer" in lines[7]
    assert lines[8].startswith("cannot import name 'scan_checkpoints' from 'theano': gradients")
    assert lines[9] == "no module named 'theano.sandbox.cuda.var': there is no GPU here"
    assert lines[10].startswith("not supported: Twice: ops are rows of the compiler")


def test_the_alias_writes_nothing_into_the_package(tmp_path):
    text = """
import importlib, pkgutil, sys, snug
for module in pkgutil.walk_packages(snug.__path__, "snug."):
    if module.name != "snug.__main__":
        importlib.import_module(module.name)
modules = {name: m for name, m in sys.modules.items() if name.split(".")[0] == "snug"}
before = {name: dict(vars(m)) for name, m in modules.items()}
snug.install_as_theano()
import theano
from theano.tensor import sort, var
import theano.tensor.sort, theano.gof.op, theano.compile.ops
assert theano.gof.op is snug.gof.op and callable(theano.tensor.sort) and callable(T := var)
for name, m in modules.items():
    changed = {k for k, v in vars(m).items() if before[name].get(k) is not v}
    assert changed <= {"_defaults"}, (name, changed)
theano_modules = [name for name in sys.modules if name.startswith("theano.")]
assert "theano.tensor.nnet.nnet" in theano_modules and "theano.loops" not in theano_modules
"""
    # In Python itself: `snug run` has the alias in place before a program begins.
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_module_runs_as_python_does(tmp_path):
    script(
        tmp_path,
        "import sys, theano\nprint(__name__, theano.config.floatX, sys.argv[1:])\n",
        "a.py",
    )
    done = snug("run", "-m", "a", "b", "-c", cwd=tmp_path)
    assert (done.out, done.err) == ("__main__ float64 ['b', '-c']\n", "")
    done = snug("run", "-m", cwd=tmp_path)
    assert done.returncode == 2 and "snug run: which module?" in done.err
    done = snug("run", "-m", "no_such_module", cwd=tmp_path)
    assert done.returncode == 1 and "no_such_module" in done.err


def test_names_of_theano_itself(tmp_path):
    text = """
import numpy as np
import theano, theano.tensor as T
from theano.gof import FunctionGraph, Apply, Op, Variable, Constant
from theano.gof.op import get_test_value
from theano.gof.graph import io_toposort, inputs
from theano.compile import FAST_RUN, FAST_COMPILE, ViewOp, DeepCopyOp, SharedVariable
from theano.compile.builders import OpFromGraph
from theano.scan_module.scan_utils import equal_computations
from theano.tensor.nlinalg import MatrixInverse
from theano.tensor.slinalg import Cholesky, cho_solve
x, y = T.matrices("xy")
z = theano.dot(x, y) * theano.shared(2.0, "w")
assert isinstance(x, theano.Variable) and isinstance(z.owner, theano.Apply)
assert theano.predefined_modes["FAST_RUN"] is FAST_RUN and theano.pprint(x) == theano.pp(x)
assert isinstance(x.type, theano.Type) and isinstance(T.constant(1.0), theano.Constant)
graph = FunctionGraph([x, y], [z])
assert [str(v) for v in graph.inputs] == ["x", "y", "w"] and graph.inputs[0] is not x
assert [type(n) for n in graph.toposort()] == [theano.Apply] * len(graph.apply_nodes)
assert graph.clients(graph.inputs[0])[0][0] in graph.toposort()
assert isinstance(T.nlinalg.matrix_inverse(x).owner.op, MatrixInverse)
double = OpFromGraph([x], [x * 2])
f = theano.function([x, y], double(y) + x, mode=FAST_COMPILE)
assert np.all(f(np.ones((2, 2)), np.ones((2, 2))) == 3)
"""
    run(tmp_path, text)


def test_pkl_utils(tmp_path):
    text = """
import numpy as np
from theano.misc.pkl_utils import dump, load
with open("model.zip", "wb") as file:
    dump({"W": np.arange(6.0).reshape(2, 3), "name": "model"}, file)
with open("model.zip", "rb") as file:
    model = load(file)
assert model["name"] == "model" and (model["W"] == np.arange(6).reshape(2, 3)).all()
"""
    run(tmp_path, text)


# ---- theano.config


def test_flags_of_the_environment_and_of_files(tmp_path):
    rc = tmp_path / "rc"
    rc.write_text(
        "[global]\nfloatx = float16\non_unused_input = ignore\ndevice = gpu0\n"
        "[gpuarray]\npreallocate = 0.8\n[nvcc]\nfastmath = True\n[blas]\nldflags =\n"
    )
    text = """
import theano
c = theano.config
print(c.floatX, c.on_unused_input, c.device, c.gpuarray.preallocate, c.nvcc.fastmath)
"""
    env = {"THEANORC": str(rc), "THEANO_FLAGS": "floatX=float32,allow_gc=False,lib.cnmem=1"}
    done = run(tmp_path, text, env=env)
    assert done.out == "float32 ignore cpu 0.8 True\n"
    assert done.err == (
        "snug: there is no GPU for device = 'gpu0': functions run on the CPU\n"
        "snug: these Theano flags have no meaning here and change nothing: "
        "gpuarray.preallocate, nvcc.fastmath, allow_gc, lib.cnmem\n"
    )
    done = run(tmp_path, text, env={"THEANO_FLAGS": "floatx=float32"})
    assert done.out.startswith("float64 raise") and "did you mean floatX?" in done.err
    done = snug("run", "script.py", cwd=tmp_path, env={"THEANO_FLAGS": "floatX=float31"})
    assert "ValueError: THEANO_FLAGS: floatX: 'float31' is not allowed\n" in done.err
    rc.write_text("[global]\n\nmode = FAST\n")
    done = snug("run", "script.py", cwd=tmp_path, env={"THEANORC": str(rc)})
    assert f"ValueError: {rc}:3: mode: 'FAST' is not allowed" in done.err


def test_own_flags(tmp_path):
    rc = tmp_path / "rc"
    rc.write_text("# mine\nthreads = 2\nmemory: 4GiB\n")
    text = "import snug\nprint(snug.config.threads, snug.config.memory, snug.config.floatX)"
    env = {"SNUGRC": str(rc), "SNUG_FLAGS": "floatX=float64, threads=1"}
    assert run(tmp_path, text, env=env).out == "1 4GiB float64\n"
    for flags, message in (
        ("floatx=float64", "SNUG_FLAGS: there is no setting 'floatx'\n  hint  did you mean floatX"),
        ("floatX=float31", "SNUG_FLAGS: floatX: 'float31' is not allowed\n  hint  choose one of"),
        ("threads=-1", "SNUG_FLAGS: threads: expected an integer of at least 0, got '-1'"),
        ("threads", "SNUG_FLAGS: 'threads' has no value\n  hint  write SNUG_FLAGS="),
    ):
        done = snug("run", "script.py", cwd=tmp_path, env={"SNUG_FLAGS": flags})
        assert done.returncode == 1 and message in done.err
    rc.write_text("\nmemory 4GiB\n")
    done = snug("run", "script.py", cwd=tmp_path, env={"SNUGRC": str(rc)})
    assert f"{rc}:2: cannot read 'memory 4GiB'" in done.err
    rc.write_bytes(b"# mine\nmemory = caf\xe9\n")
    done = snug("run", "script.py", cwd=tmp_path, env={"SNUGRC": str(rc)})
    assert f"ValueError: {rc}:2: is not in UTF-8\n  hint  save the file as UTF-8" in done.err


DAMAGED_SETTINGS = """
import os, sys, numpy as np, snug
from snug._settings import entries_of_file, entries_of_flags
rng = np.random.default_rng(0)
read = refused = 0
texts = {
    "SNUG_FLAGS": b'floatX=float64, threads=1,memory="4 GiB"',
    "rc": b"# mine\\n[global]\\nthreads = 2\\nmemory: 4GiB # much\\n  more\\n[a]\\nb = 1\\n",
}
for _ in range(int(sys.argv[1])):
    for place, text in texts.items():
        bad = bytearray(text)
        for _ in range(rng.integers(1, 5)):
            at = int(rng.integers(len(bad)))
            kind = rng.integers(4)
            if kind == 0:
                bad[at] = rng.integers(1, 256)
            elif kind == 1:
                bad[at] = b"=,:[]\\"\\n# "[rng.integers(9)]
            elif kind == 2:
                bad[at:at] = bad[at : at + int(rng.integers(20))]
            else:
                del bad[at : at + int(rng.integers(1, 4))]
            bad = bad or bytearray(b"=")
        try:
            if place == "rc":
                open("rc", "wb").write(bad)
                entries = entries_of_file("rc")
            else:
                os.environb[b"SNUG_FLAGS"] = bytes(bad)
                entries = entries_of_flags("SNUG_FLAGS")
            assert all(e.place.startswith(place) for e in entries)
            read += 1
        except ValueError as error:
            assert type(error) is ValueError and str(error).startswith(place), (bad, error)
            refused += 1
print(read > 100 and refused > 100)
"""


def test_damaged_settings_are_other_settings_or_errors(tmp_path):
    rounds = "20000" if os.environ.get("SNUG_LONG") else "500"
    done = subprocess.run(
        [sys.executable, "-c", DAMAGED_SETTINGS, rounds],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "True\n", done.stderr


CONFIG = """
import theano, theano.tensor as T
from theano.configparser import change_flags
c = theano.config
assert c.floatX == "float64" and c.mode == "Mode" and c.device == "cpu" and c.optimizer == "o4"
c.warn.subtensor_merge_bug = False
assert c.dnn.conv.algo_fwd == "small" and c.traceback.limit == 8 and c.blas.ldflags == ""
c.traceback.limit = "20"
assert c.traceback.limit == 20
c.traceback.limit = 21
with c.change_flags(floatX="float32"):
    assert T.matrix().dtype == "float32"
with change_flags({"warn.round": True}, floatX="float16"):
    assert c.warn.round and T.matrix().dtype == "float16"
assert not c.warn.round and T.matrix().dtype == "float64"

@theano.change_flags(floatX="float32")
def dtype():
    return T.vector().dtype

assert dtype() == dtype() == "float32" and c.floatX == "float64"
for name, value in (("floatX", "int8"), ("allow_gc", "maybe"), ("device", "tpu"), ("mode", "FAST")):
    try:
        setattr(c, name, value)
    except ValueError as e:
        assert "config." + name in str(e)
    else:
        raise AssertionError(name)
for act in (lambda: c.floatx, lambda: setattr(c, "floatx", 1), lambda: c.gpuarray.preallocat):
    try:
        act()
    except AttributeError as e:
        assert "did you mean config." in str(e)
    else:
        raise AssertionError
from theano.configparser import AddConfigVar, EnumStr, IntParam
AddConfigVar("my.size", "A flag of this program.", IntParam(3))
AddConfigVar("kind", "Another one.", EnumStr("a", "b"))
c.my.size = "4"
assert c.my.size == 4 and c.kind == "a"
c.kind = "b"
c.mode = "DebugMode"
import snug
assert snug.config.mode == "DebugMode"
c.mode = "FAST_RUN"
c.openmp = False
assert snug.config.threads == 1
assert "floatX (" in str(c) and "Value:  float64" in str(c) and "gpuarray" in dir(c)
"""


MODES = """
import numpy as np
import theano, theano.tensor as T
from theano.compile.nanguardmode import NanGuardMode
c = theano.config
x = T.vector("x")
assert NanGuardMode().guarded == (True, True, True)
with c.change_flags({"NanGuardMode.inf_is_error": False, "NanGuardMode.big_is_error": False}):
    assert NanGuardMode().guarded == (True, False, False)
    assert NanGuardMode(big_is_error=True).guarded == (True, False, True)
    f = theano.function([x], T.log(x), mode="NanGuardMode")
    assert f([0.0])[0] == -np.inf
assert NanGuardMode().guarded == (True, True, True)
default = theano.compile.get_default_mode
assert default().disabled_passes == []
with c.change_flags(optimizer="None"):
    assert default().disabled_passes == ["fold_constants", "simplify", "stabilize"]
    assert np.isinf(theano.function([x], T.log(T.exp(x)))([1000.0])[0])
with c.change_flags(optimizer="fast_compile", linker="py"):
    assert default().disabled_passes == ["simplify"] and default().linker == "py"
with c.change_flags(optimizer_excluding="stabilize:inplace"):
    assert default().disabled_passes == ["stabilize"]
    with c.change_flags(optimizer="merge", optimizer_including="specialize:simplify"):
        assert default().disabled_passes == ["fold_constants", "stabilize"]
assert default().disabled_passes == []
i = T.ivector("i")
assert (i / i).dtype == "float64"
with c.change_flags(int_division="raise"):
    try:
        i / i
    except TypeError as e:
        assert "int_division" in str(e)
    else:
        raise AssertionError
assert c.int_division == "int" and (i / i).dtype == "float64"
"""


def test_flags_of_modes(tmp_path):
    done = run(tmp_path, MODES)
    assert done.err == ""


def test_theano_config(tmp_path):
    done = run(tmp_path, CONFIG)
    assert done.err == (
        "snug: these Theano flags have no meaning here and change nothing: traceback.limit\n"
    )


def test_install_in_a_session(tmp_path):
    text = """
import sys
import snug
snug.install_as_theano()
snug.install_as_theano()
import theano
assert theano.tensor is snug.tensor and theano.config.floatX == "float64"
"""
    path = tmp_path / script(tmp_path, text)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = "import sys, types\nsys.modules['theano'] = types.ModuleType('theano')\n" + text
    path = tmp_path / script(tmp_path, text)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert "another theano is imported already" in done.stderr
