"""The stubs know every name."""

import ast
import pathlib

import pytest

import snug
from snug import _core
from snug.tensor import _types

PACKAGE = pathlib.Path(snug.__file__).parent


def names_in(body):
    names = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def test_types():
    stub = ast.parse((PACKAGE / "tensor" / "_types.pyi").read_text())
    assert set(_types.__all__) <= names_in(stub.body)


def test_core():
    path = PACKAGE / "_core.pyi"
    if not path.exists():
        pytest.skip("the stub of the extension is not built here")
    stub = ast.parse(path.read_text())
    public = {name for name in dir(_core) if not name.startswith("_")}
    assert public <= names_in(stub.body)
    (variable,) = (n for n in stub.body if isinstance(n, ast.ClassDef) and n.name == "Variable")
    members = {name for name in vars(_core.Variable) if not name.startswith("_")}
    assert {"sum", "shape", "T", "dtype"} <= members <= names_in(variable.body)
    assert (PACKAGE / "py.typed").exists()
