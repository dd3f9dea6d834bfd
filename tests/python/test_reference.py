"""docs/reference.md is what tools/make_reference.py writes, and Theano's names in it are supported
or have a reason."""

import pathlib
import sys

import pytest

TOOLS = pathlib.Path(__file__).parents[2] / "tools"


@pytest.fixture(scope="module")
def tools():
    sys.path.insert(0, str(TOOLS))
    import make_reference
    import theano_modules
    import theano_names

    yield make_reference, theano_names, theano_modules
    sys.path.remove(str(TOOLS))


@pytest.fixture(scope="module")
def found(tools, tmp_path_factory):
    return tools[1].statuses(tmp_path_factory.mktemp("probes"))


@pytest.fixture(scope="module")
def modules(tools):
    return tools[2].statuses()


def test_every_name_of_a_module_is_there_or_has_a_reason(modules):
    found, problems = modules
    assert not problems, "\n".join(problems)
    assert len(found) > 500


def test_every_name_has_a_probe_that_works_or_a_reason(found):
    problems = found[1]
    assert not problems, "\n".join(problems)


def test_95_percent_of_the_names_are_supported(tools, found):
    supported, total = tools[1].counted(found[0])
    assert total > 550
    assert supported >= 0.95 * total, f"{supported} of {total}"


def test_the_document_is_not_stale(tools, found, modules):
    text = tools[0].make(found[0], modules[0])
    assert tools[0].TARGET.read_text() == text, "run tools/make_reference.py"


def test_every_row_has_an_example(tools):
    from row_examples import ROWS, example_of

    for row in ROWS:
        example_of(row)
