"""snug.gof and the functions that copy graphs, with Theano's meaning."""

from collections import deque

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import gof
from snug.gof import graph


def named(variables):
    return [v.name for v in variables]


@pytest.fixture
def parts():
    a, b, c = map(T.dscalar, ("a", "b", "c"))
    return a, b, c, (a + b) * (b + c)


# ---- walking


def test_inputs_come_in_depth_first_order(parts):
    a, b, c, e = parts
    assert graph.inputs([e]) == [a, b, c]
    assert graph.inputs(reversed([e, c + a])) == [a, b, c]
    assert graph.inputs([c * a, e]) == [a, b, c]
    assert graph.inputs([e, c * a]) == [c, a, b]


def test_constants_and_shared_variables_are_inputs(parts):
    a, *_ = parts
    w = snug.shared(1.0, "w")
    found = graph.inputs([a * 2.0 + w])
    assert found[0] is a and found[2] is w and isinstance(found[1], gof.Constant)


def test_blockers(parts):
    a, b, c, e = parts
    left = e.owner.inputs[0]
    assert graph.inputs([e], [left]) == [b, c]
    assert left in graph.ancestors([e], [left]) and a not in graph.ancestors([e], [left])


def test_ancestors(parts):
    a, b, c, e = parts
    left, right = e.owner.inputs
    assert graph.ancestors([e]) == [e, left, a, b, right, c]


def test_nodes_and_variables(parts):
    a, b, c, e = parts
    left, right = e.owner.inputs
    order = graph.io_toposort([a, b, c], [e])
    assert set(order) == {left.owner, right.owner, e.owner} and order[-1] is e.owner
    assert graph.list_of_nodes([a, b, c], [e])[0] is e.owner
    assert graph.ops([a, b, c], [e]) == set(order)
    assert set(graph.variables([a, b], [e])) == {a, b, c, left, right, e}
    assert graph.orphans([a, b], [e]) == [c]
    assert graph.io_toposort([left], [e]) == [right.owner, e.owner]
    assert graph.is_in_ancestors(e.owner, left.owner)
    assert not graph.is_in_ancestors(left.owner, e.owner)


def test_orderings(parts):
    a, b, c, e = parts
    left, right = e.owner.inputs
    order = graph.io_toposort([a, b, c], [e], {left.owner: [right.owner]})
    assert order == [right.owner, left.owner, e.owner]
    with pytest.raises(ValueError, match="itself"):
        graph.io_toposort([a, b, c], [e], {left.owner: [e.owner]})


def test_stack_search():
    below = {1: [2, 3], 2: [4], 3: [4], 4: []}
    assert graph.stack_search(deque([1]), below.get, "bfs") == [1, 2, 3, 4]
    assert graph.stack_search(deque([1]), below.get, "dfs") == [1, 3, 4, 2]


def test_applications(parts):
    a, b, _, e = parts
    node = e.owner
    assert isinstance(node, gof.Apply) and isinstance(e, gof.Variable)
    assert isinstance(node.op, gof.Op) and isinstance(e.type, gof.Type)
    assert e.get_parents() == [node] and a.get_parents() == [] and e.index == 0
    assert node.get_parents() == node.inputs and node.outputs == [e]
    assert (node.nin, node.nout) == (2, 1) and node.default_output() is e
    other = node.clone_with_new_inputs([a, b])
    assert other.op == node.op and other.inputs == [a, b]
    with pytest.raises(TypeError):
        node.clone_with_new_inputs([T.fscalar(), b])


def test_errors_are_there():
    assert gof.MissingInputError is snug.MissingInputError
    with pytest.raises(gof.MissingInputError):
        snug.function([], T.dscalar("x") * 2)


def test_long_chains():
    x = y = T.dscalar("x")
    for _ in range(50000):
        y = y + 1.0
    assert graph.inputs([y])[0] is x
    assert len(graph.io_toposort([x], [y])) == 50000
    assert graph.equal_computations([y], [snug.clone(y)])
    assert graph.inputs([graph.map_variables(lambda v: v, [y])[0]])[0] is x


# ---- copying


def test_clone_makes_new_nodes(parts):
    a, b, c, e = parts
    e.name = "e"
    copied = snug.clone(e)
    assert copied is not e and copied.owner is not e.owner and copied.name == "e"
    assert graph.inputs([copied]) == [a, b, c]
    alone = snug.clone(e, share_inputs=False)
    assert not set(graph.inputs([alone])) & {a, b, c}
    assert named(graph.inputs([alone])) == ["a", "b", "c"]
    with pytest.warns(UserWarning, match="share_inputs"):
        assert graph.inputs([snug.clone(e, copy_inputs=False)])[0] is not a


def test_clone_replaces(parts):
    a, b, c, e = parts
    left = e.owner.inputs[0]
    f = snug.function([a, b], snug.clone([e, left], replace={left: a * 10, c: b}))
    assert f(1.0, 2.0) == [40.0, 10.0]
    swapped = snug.clone(e, replace=[(a, c), (c, a)])
    assert snug.function([a, b, c], swapped)(1.0, 2.0, 5.0) == 21.0
    with pytest.raises(TypeError, match="replace"):
        snug.clone(e, replace=3)


def test_replacements_have_the_type_of_the_original():
    x, y = T.fvector("x"), T.dvector("y")
    with pytest.raises(TypeError, match="strict"):
        snug.clone(x * 2, {x: y})
    assert snug.clone(x * 2, {x: y}, strict=False).dtype == "float64"
    m, r = T.dmatrix("m"), T.drow("r")
    assert snug.clone(m * 2, {m: r}).broadcastable == (False, False)
    with pytest.raises(TypeError):
        snug.clone(r * 2, {r: m})


def test_copies_of_shared_variables_share_the_value():
    w = snug.shared(np.array([1.0, 2.0]), "w")
    twin = snug.clone(w, share_inputs=False)
    assert twin is not w and twin.name == "w" and type(twin) is type(w)
    w.set_value(np.array([3.0, 4.0]))
    assert twin.get_value().tolist() == [3.0, 4.0]
    f = snug.function([], w + twin)
    assert f().tolist() == [6.0, 8.0]


def test_running_averages_through_a_twin():
    """What Lasagne's batch normalisation does."""
    mean = snug.shared(np.zeros(2), "mean")
    x = T.dmatrix("x")
    running = snug.clone(mean, share_inputs=False)
    running.default_update = 0.9 * running + 0.1 * x.mean(axis=0)
    assert mean.default_update is None
    train = snug.function([x], x - (x.mean(axis=0) + 0 * running))
    use = snug.function([x], x - mean)
    data = np.array([[1.0, 2.0], [3.0, 6.0]])
    train(data)
    np.testing.assert_allclose(mean.get_value(), [0.2, 0.4])
    np.testing.assert_allclose(use(data), data - [0.2, 0.4])
    both = snug.function([x], [mean.sum(), running.sum() + 0 * x.sum()])
    before = mean.get_value().sum()
    assert both(data) == [before, before]
    np.testing.assert_allclose(mean.get_value(), 0.9 * np.array([0.2, 0.4]) + 0.1 * data.mean(0))


def test_a_variable_and_its_twin_are_updated_once():
    w = snug.shared(1.0, "w")
    twin = w.clone()
    with pytest.raises(ValueError, match="twice"):
        snug.function([], [], updates=[(w, w + 1), (twin, twin + 2)])
    f = snug.function([], [], updates=[(twin, w * 3)])
    f()
    assert w.get_value() == 3.0


def test_clones_of_graphs(parts):
    a, b, c, e = parts
    new_inputs, new_outputs = graph.clone([a, b], [e])
    assert named(new_inputs) == ["a", "b"] and new_inputs[0] is not a
    assert c not in graph.inputs(new_outputs)
    same_inputs, _ = graph.clone([a, b], [e], copy_inputs=False)
    assert same_inputs == [a, b]
    equiv = graph.clone_get_equiv([a, b], [e], copy_orphans=False)
    assert equiv[c] is c and equiv[a] is not a and equiv[e.owner] is equiv[e].owner
    memo = {a: b}
    assert graph.inputs([graph.clone_get_equiv([b], [e], False, False, memo)[e]]) == [b, c]


def test_map_variables(parts):
    a, b, c, e = parts
    left = e.owner.inputs[0]
    left.tag.replacement = a * b
    (mapped,) = snug.map_variables(lambda v: getattr(v.tag, "replacement", v), [e])
    assert snug.function([a, b, c], mapped)(2.0, 3.0, 4.0) == 42.0
    (doubled,) = snug.map_variables(lambda v: 2 * v if v is a else v, [e])
    assert snug.function([a, b, c], doubled)(2.0, 3.0, 4.0) == 49.0
    same = snug.map_variables(lambda v: v, [e, left])
    assert same == [e, left]


# ---- comparing


def test_is_same_graph(parts):
    a, b, c, e = parts
    assert graph.is_same_graph(a + 1, a + 1)
    assert not graph.is_same_graph(a + 1, b + 1)
    assert graph.is_same_graph(a + 1, b + 1, givens={a: b})
    assert graph.is_same_graph(e, (a + b) * (b + c))
    assert not graph.is_same_graph(e, (b + c) * (a + b))
    assert not graph.is_same_graph(a + 1, a + 2)
    assert not graph.is_same_graph(a + b, a - b)
    assert not graph.is_same_graph(a.sum(), a)


def test_equal_computations(parts):
    a, b, *_ = parts
    x, y = map(T.dscalar, ("x", "y"))
    assert graph.equal_computations([a * b, a + b], [x * y, x + y], [a, b], [x, y])
    assert not graph.equal_computations([a * b], [y * x], [a, b], [x, y])
    v, w = T.dvector("v"), T.dvector("w")

    def total(z):
        return snug.loop(lambda i, xs, s: ([s[0] + xs[0]], []), [z], [z[0]])[0]

    assert graph.equal_computations(total(v), total(w), [v], [w])
    assert not graph.equal_computations(total(v), total(w))
    assert not graph.equal_computations([v[0]], [v[1]])
    with pytest.raises(ValueError):
        graph.equal_computations([a], [])


# ---- graphs as objects, and helpers


def test_function_graph(parts):
    a, b, c, e = parts
    left, right = e.owner.inputs
    found = gof.FunctionGraph([a, b, c], [e], clone=False)
    assert found.inputs == [a, b, c] and found.outputs == [e] and left in found
    assert found.toposort()[-1] is e.owner and found.apply_nodes == set(found.toposort())
    assert set(found.clients(b)) == {(left.owner, 1), (right.owner, 0)}
    assert found.clients(e) == [("output", 0)]
    above = gof.FunctionGraph([left, right], [e], clone=False)
    assert above.toposort() == [e.owner] and above.variables == {left, right, e}
    copied = found.clone()
    assert named(copied.inputs) == ["a", "b", "c"] and copied.inputs[0] is not a
    assert graph.equal_computations(copied.outputs, [e], copied.inputs, [a, b, c])
    with pytest.raises(gof.MissingInputError, match="c is needed and is no input"):
        gof.FunctionGraph([a, b], [e])
    with pytest.raises(NotImplementedError, match="features"):
        gof.FunctionGraph([a, b, c], [e], features=[object()])


def test_a_graph_as_an_op(parts):
    a, b, c, e = parts
    op = snug.compile.OpFromGraph([a, b, c], [e, a * 2])
    x = T.dscalar("x")
    first, second = op(x, x, 1.0)
    assert first.eval({x: 2.0}) == 12 and second.eval({x: 3.0}) == 6
    assert T.grad(first, x).eval({x: 2.0}) == 10
    w = snug.shared(3.0)
    assert snug.compile.OpFromGraph([a], [a * w])(T.constant(2.0, dtype="float64")).eval() == 6
    with pytest.raises(ValueError, match="c is needed and is no input"):
        snug.compile.OpFromGraph([a, b], [e])
    with pytest.raises(TypeError, match="1 arguments for 3 inputs"):
        op(x)
    with pytest.raises(NotImplementedError, match="grad_overrides"):
        snug.compile.OpFromGraph([a], [a * 2], grad_overrides=len)


def test_helpers(parts, tmp_path):
    utils = gof.utils
    order = gof.toposort({"c": ["b"], "b": ["a"], "a": []})
    assert order == ["a", "b", "c"]
    assert utils.uniq([2, 1, 2]) == [2, 1] and not utils.unique([1, 1]) and utils.unique([1, 2])
    assert utils.flatten([1, (2, [3]), 4]) == [1, 2, 3, 4]
    assert utils.difference([1, 2, 3], [2]) == utils.remove(lambda x: x == 2, [1, 2, 3]) == [1, 3]
    assert utils.hist("aab") == {"a": 2, "b": 1}
    assert utils.from_return_values(1) == [1] and utils.to_return_values([1]) == 1
    nameless = [T.scalar(), T.scalar("x"), T.scalar()]
    assert utils.give_variables_names(nameless) == ["A", "x", "C"]
    (tmp_path / "a").write_bytes(b"text")
    assert utils.hash_from_file(str(tmp_path / "a")) == utils.hash_from_code("text")
    calls = []
    once = utils.memoize(lambda x: calls.append(x))
    assert once(1) is once(1) is None and calls == [1]
    with pytest.warns(DeprecationWarning, match="m.f is deprecated. Use g"):

        @utils.deprecated("m", "Use g")
        def f():
            return 1

        assert f() == 1


def test_test_values(parts):
    a, b, *_ = parts
    a.tag.test_value = np.float64(2.0)
    op = gof.op
    assert list(op.get_debug_values(a)) == []
    with snug.config.change_flags(compute_test_value="raise"):
        assert list(op.get_debug_values(a)) == [(2.0,)]
        with pytest.raises(AttributeError):
            list(op.get_debug_values(a, b))
        with pytest.raises(AssertionError, match="why"):
            op.debug_assert(False, "why")
        with pytest.raises(AttributeError, match="none"):
            op.missing_test_message("none")
    with snug.config.change_flags(compute_test_value="ignore"):
        assert list(op.get_debug_values(a, b)) == []
        op.debug_assert(False)
