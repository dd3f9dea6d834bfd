"""Printing in Theano's formats. tests/printing/theano.txt holds what Theano 1.0.5 itself prints of
the expressions in it: str, pp and debugprint."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import _core, _theano_view, printing

GOLDEN = Path(__file__).parent.parent / "printing" / "theano.txt"


# The expressions, with what Theano prints of each.
EXPRESSIONS = dict(part.split("\n", 1) for part in GOLDEN.read_text().split(">>> ")[1:])


def variables():
    x, y = T.dmatrices("xy")
    v, w = T.dvectors("vw")
    z = x + y
    z.name = "z"
    return {
        "T": T,
        "np": np,
        "theano": snug,
        "x": x,
        "y": y,
        "v": v,
        "w": w,
        "z": z,
        "f": T.fmatrix("f"),
        "s": T.dscalar("s"),
        "i": T.iscalar("i"),
        "k": T.ivector("k"),
        "t": T.dtensor3("t"),
        "W": snug.shared(np.zeros((3, 4)), "W"),
        "b": snug.shared(np.zeros(4), "b"),
    }


# Theano's pp of slices shows the types of bounds, not the bounds.
OWN_PP = ("x[1:3]", "x[i, 1:]", "x[:, ::-1]", "x[i * 10:(i + 1) * 10]")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_theano_prints(expression):
    text = EXPRESSIONS[expression]
    with snug.config.change_flags(floatX="float64"):
        e = eval(expression, variables())
    own = f"{e}\n{snug.pp(e)}\n{snug.debugprint(e, file='str')}"
    if expression in OWN_PP:
        own, text = (t.replace(t.splitlines()[1], "", 1) for t in (own, text))
    assert own == text


def test_options_of_debugprint(capsys):
    x, y = T.dmatrices("xy")
    z = T.exp(x + y)
    z.name = "z"
    w = z * (x + 1.5)
    assert printing.debugprint(w, depth=2, file="str") == (
        "Elemwise{mul,no_inplace} [id A] ''   \n"
        " |Elemwise{exp,no_inplace} [id B] 'z'   \n"
        " |Elemwise{add,no_inplace} [id C] ''   \n"
    )
    assert printing.debugprint(w, stop_on_name=True, file="str") == (
        "Elemwise{mul,no_inplace} [id A] ''   \n"
        " |Elemwise{exp,no_inplace} [id B] 'z'   \n"
        " |Elemwise{add,no_inplace} [id C] ''   \n"
        "   |x [id D]\n"
        "   |InplaceDimShuffle{x,x} [id E] ''   \n"
        "     |TensorConstant{1.5} [id F]\n"
    )
    assert printing.debugprint(x + 1.5, print_type=True, ids="int", file="str") == (
        "Elemwise{add,no_inplace} [id 0] <TensorType(float64, matrix)> ''   \n"
        " |x [id 1] <TensorType(float64, matrix)>\n"
        " |InplaceDimShuffle{x,x} [id 2] <TensorType(float32, (True, True))> ''   \n"
        "   |TensorConstant{1.5} [id 3] <TensorType(float32, scalar)>\n"
    )
    assert printing.debugprint(-x, ids="", file="str") == (
        "Elemwise{neg,no_inplace}  ''   \n |x \n"
    )
    assert f"x [id {id(x)}]" in printing.debugprint(-x, ids="id", file="str")
    ids = {}
    printing.debugprint([x, y], used_ids=ids)
    printing.debugprint(y, used_ids=ids)
    assert capsys.readouterr().out == "x [id A]\ny [id B]\ny [id B]\n"
    assert printing.debugprint(w.owner, file="str") == printing.debugprint(w, file="str")
    assert printing.debugprint([w, w], file="str").count("\n") == 10
    s = snug.shared(np.ones(2), "s")
    assert "s [id B] [1. 1.]" in printing.debugprint(-s, print_storage=True, file="str")
    z = x + y
    assert printing.debugprint(T.exp(z) * T.log(z), print_clients=True, file="str") == (
        "Elemwise{mul,no_inplace} [id A] ''   \n"
        " |Elemwise{exp,no_inplace} [id B] ''   \n"
        " | |Elemwise{add,no_inplace} [id C] ''    clients:[[id B], [id D]]\n"
        " |   |x [id E]\n"
        " |   |y [id F]\n"
        " |Elemwise{log,no_inplace} [id D] ''   \n"
        "   |Elemwise{add,no_inplace} [id C] ''    clients:[[id B], [id D]]\n"
    )
    for wrong in ({"ids": "char"}, {"depth": "2"}):
        with pytest.raises((ValueError, TypeError), match="debugprint"):
            printing.debugprint(x, **wrong)
    with pytest.raises(TypeError, match="cannot print a int"):
        printing.debugprint(3)


def test_a_file(tmp_path):
    with open(tmp_path / "tree", "w") as file:
        assert printing.debugprint(T.dmatrix("x"), file=file) is file
    assert (tmp_path / "tree").read_text() == "x [id A]\n"


def test_deep_graphs_and_many_letters():
    x = T.vector("x")
    e = x
    for _ in range(20000):
        e = T.tanh(e)
    assert printing.debugprint(e, file="str").count("\n") == 20001
    assert printing.min_informative_str(e).count("\n") == 20000
    assert printing.var_descriptor(e).count("tanh") == 20000
    assert "tanh" in printing.pp(e)
    total = x
    for _ in range(200):
        total = total + total
    assert len(printing.pp(total)) < 20000
    lines = printing.debugprint([T.vector(f"x{i}") for i in range(28)], file="str").splitlines()
    assert lines[25:] == ["x25 [id Z]", "x26 [id BA]", "x27 [id BB]"]


def test_texts_of_objects():
    x, y = T.fmatrices("xy")
    e = (x + y)[0]
    assert str(e) == repr(e) == "Subtensor{int64}.0"
    assert str(e.owner) == repr(e.owner)
    assert str(e.owner) == "Subtensor{int64}(Elemwise{add,no_inplace}.0, Constant{0})"
    assert str((x + y).owner.op) == "Elemwise{add,no_inplace}"
    assert str(T.fmatrix()) == "<TensorType(float32, matrix)>" and str(x) == repr(x) == "x"
    assert str(T.constant(1.0)) == "TensorConstant{1.0}"
    assert str(snug.shared(np.zeros((2, 2)))) == "<TensorType(float64, matrix)>"
    assert repr(T.TensorType("float64", (True, False, True))()) == (
        "<TensorType(float64, (True, False, True))>"
    )


def test_min_informative_str_and_var_descriptor():
    x, y = T.dmatrices("xy")
    e = T.exp(x + y) * (x + 1.5)
    assert printing.min_informative_str(e) == (
        "A. Elemwise{mul,no_inplace}\n"
        " B. Elemwise{exp,no_inplace}\n"
        "  C. Elemwise{add,no_inplace}\n"
        "   D. x\n"
        "   E. y\n"
        " F. Elemwise{add,no_inplace}\n"
        "  <D>\n"
        "  G. InplaceDimShuffle{x,x}\n"
        "   H. TensorConstant{1.5}"
    )
    assert printing.var_descriptor(e) == (
        "A=Elemwise{mul,no_inplace}(B=Elemwise{exp,no_inplace}(C=Elemwise{add,no_inplace}"
        "(D=x,E=y)),F=Elemwise{add,no_inplace}(<D>,G=InplaceDimShuffle{x,x}"
        "(H=TensorConstant{1.5})))"
    )


def test_pydotprint(tmp_path, capsys):
    x = T.fmatrix("x")
    W = snug.shared(np.zeros((3, 4), "float32"), "W")
    y = T.nnet.sigmoid(T.dot(x, W)) + 1
    printing.pydotprint(y, outfile=tmp_path / "graph.svg", format="svg")
    assert capsys.readouterr().out == f"The output file is available at {tmp_path}/graph.svg\n"
    picture = (tmp_path / "graph.svg").read_text()
    assert picture.count("<ellipse") == 4 and picture.count("<polygon") >= 4
    colors = ("#ffaabb", "cyan", "green", "blue")
    for text in ("sigmoid", "dot", "TensorType(float32, matrix)", *colors):
        assert text in picture, text
    source = printing.pydotprint(y, return_image=True, format="dot", compact=False).decode()
    assert source.count("shape=box") == 7
    printing.pydotprint([y, x.T], outfile=tmp_path / "two", print_output_file=False)
    assert (tmp_path / "two.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out == ""
    with pytest.raises(ValueError, match="dot failed"):
        printing.pydotprint(y, outfile=tmp_path / "wrong", format="gif3")


def test_pydotprint_without_graphviz(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="Graphviz is not installed"):
        printing.pydotprint(T.vector(), outfile=tmp_path / "graph.svg", format="svg")
    with pytest.raises(FileNotFoundError):
        subprocess.run(["dot"], check=False)


def test_the_tables_know_no_rows_that_are_gone():
    rows = set(_core.op_docs())
    for table in (_theano_view._SCALAR_NAMES, _theano_view._NAMES, _theano_view._RULES):
        assert set(table) <= rows
    assert set(_theano_view._INFIX) <= rows


def test_functions(tmp_path):
    x = T.dmatrix("x")
    W = snug.shared(np.ones((3, 2)), "W")
    y = T.tanh(T.dot(x, W))
    f = snug.function([x], [y, y.sum()], updates=[(W, W * 2)])
    lines = printing.debugprint(f, file="str").splitlines()
    assert lines[:4] == [
        "Elemwise{tanh,no_inplace} [id A] ''   1",
        " |dot [id B] ''   0",
        "   |x [id C]",
        "   |W [id D]",
    ]
    assert " |Elemwise{tanh,no_inplace} [id A] ''   1" in lines  # of the sum
    assert sum("Elemwise{mul,no_inplace}" in line for line in lines) == 1  # of the update
    assert printing.debugprint([f, x], file="str").splitlines()[-1].startswith("x [id ")
    printing.pydotprint(f, outfile=tmp_path / "f.dot", format="dot", with_ids=True)
    assert "dot id=0" in (tmp_path / "f.dot").read_text()
