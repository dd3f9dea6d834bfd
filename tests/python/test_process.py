"""Snug inside a process: signals, forks, threads that cannot be started, what caches take."""

import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import _core, nn

f32 = np.float32


def run_program(text, **env):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **env},
    )


# ---- interrupts: of compiling, planning, measuring


def chain(length=60):
    x = T.matrix("x")
    W = snug.shared(np.ones((8, 8), f32), "W")
    y = x
    for _ in range(length):
        y = T.tanh(T.dot(y, W) + 1)
    loss = y.sum()
    return x, W, loss, [(W, W - 0.1 * T.grad(loss, W))]


def checks_of(work):
    """How often `work` asks whether to stop, and the longest time in between."""
    return _core._with_interrupt_at(work)


def interrupted_at(work, check):
    """Whether `work` stopped there."""
    done = []
    _core._with_interrupt_at(lambda: done.append(work()), check)
    return not done


def some(count):
    """Numbers of checks: the first, the last and some between."""
    return sorted({1, 2, *range(3, count, max(1, count // 8)), count})


def test_compiling_stops_at_any_check_and_can_be_repeated():
    x, W, loss, updates = chain(8)

    def compile():
        return snug.function([x], loss, updates=updates)

    expected = compile()(np.ones((4, 8), f32))
    W.set_value(np.ones((8, 8), f32))
    count, _ = checks_of(compile)
    assert count > 100
    for check in some(count):
        assert interrupted_at(compile, check), check
    f = compile()
    assert f(np.ones((4, 8), f32)) == expected


def test_a_first_call_that_is_interrupted_can_be_repeated():
    x, W, loss, updates = chain(8)
    budget = 20_000
    a = np.ones((64, 8), f32)

    def call(f):
        W.set_value(np.ones((8, 8), f32))
        return f(a), W.get_value()

    def fresh():
        return snug.function([x], loss, updates=updates, memory=budget)

    expected, after = call(fresh())
    f = fresh()
    count, _ = checks_of(lambda: call(f))
    for check in some(count):
        f = fresh()
        assert interrupted_at(lambda f=f: call(f), check), check
        np.testing.assert_array_equal(W.get_value(), np.ones((8, 8), f32))
        again, value = call(f)
        assert again == expected
        np.testing.assert_array_equal(value, after)


def test_a_variable_that_changes_its_shape_while_an_interrupt_comes():
    # What the code counts on is replaced only when the new code is there.
    x = T.matrix("x")
    W = snug.shared(np.ones((3, 4), f32), "W")
    f = snug.function([x], T.dot(x, W).sum(axis=0))
    f(np.ones((2, 3), f32))
    W.set_value(np.full((3, 5), 2, f32))
    count, _ = checks_of(lambda: snug.function([x], T.dot(x, W).sum(axis=0)))
    for check in some(count)[:4]:
        assert interrupted_at(lambda: f(np.ones((2, 3), f32)), check)
    np.testing.assert_array_equal(f(np.ones((2, 3), f32)), np.full(5, 12, f32))


def test_planning_stops_at_any_check_and_gives_the_same_plan_later():
    x, _, loss, updates = chain(6)

    def plan():
        f = snug.function([x], loss, updates=updates, plan_only=True, memory=12_000)
        return f.memory(x=(64, 8)).peak

    peak = plan()
    _core._forget_frontiers()
    count, _ = checks_of(plan)
    for check in some(count):
        _core._forget_frontiers()
        assert interrupted_at(plan, check), check
        assert plan() == peak


def test_max_batch_stops_at_a_check():
    x, _, loss, updates = chain(4)
    f = snug.function([x], loss, updates=updates, plan_only=True)
    for check in (1, 100, 1000):
        assert interrupted_at(lambda: snug.max_batch(f, x=(1, 8), memory="12KiB"), check)


def test_no_more_than_half_a_second_of_work_between_checks():
    # In seconds of the thread itself; what is measured is some hundredths.
    x, _, loss, updates = chain(12)

    def work():
        snug.function([x], loss, updates=updates)
        with pytest.raises(MemoryError):
            snug.function([x], loss, updates=updates, memory="1KiB").memory(x=(64, 8))

    count, longest = checks_of(work)
    assert count > 1000
    assert longest < 0.5


def test_ctrl_c_while_planning():
    result = run_program(
        """
        import os, signal, threading
        import numpy as np, snug, snug.tensor as T
        x = T.matrix("x"); y = x
        for i in range(2000):
            y = T.tanh(y * 1.01 + i)
        g = T.grad(y.sum(), x)
        f = snug.function([x], [y, g], plan_only=True)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            for k in range(1, 10000):
                f.memory(x=(k, k))
        except KeyboardInterrupt as e:
            print("stopped")
        print(f.memory(x=(2, 2)).peak > 0)
        """
    )
    assert result.stdout.splitlines() == ["stopped", "True"], result


def test_other_threads_do_not_take_the_interrupt_of_the_main_one():
    x = T.matrix("x")
    f = snug.function([x], T.tanh(x).sum())
    faults = []

    def call():
        try:
            for _ in range(200):
                f(np.ones((4, 4), f32))
        except BaseException as e:
            faults.append(e)

    thread = threading.Thread(target=call)
    _core._request_interrupt()
    thread.start()
    thread.join()
    _core._clear_interrupt()
    assert not faults


# ---- forks


def in_child(work):
    """The exit status of a child that does it: 0, or 1 with an error, or "hangs"."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return "hangs" if os.WTERMSIG(status) == signal.SIGALRM else f"signal {status}"
    return os.WEXITSTATUS(status)


class Busy:
    """A thread that does something over and over."""

    def __init__(self, work):
        self.work, self.stop, self.rounds, self.fault = work, False, 0, None
        self.begun = threading.Event()

    def run(self):
        try:
            while not self.stop:
                self.work()
                self.rounds += 1
                self.begun.set()
        except BaseException as e:
            self.fault = e
            self.begun.set()

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        self.begun.wait()
        return self

    def __exit__(self, *_):
        self.stop = True
        self.thread.join()
        if self.fault:
            raise self.fault


def test_a_child_calls_the_function_that_another_thread_is_in():
    x = T.matrix("x")
    total = snug.shared(np.float64(0), "total")
    f = snug.function([x], T.exp(T.dot(x, x)).sum())
    plain = snug.function([x], T.sqr(x).sum() + 0 * total)
    a, large = np.full((20, 20), 0.01, f32), np.full((300, 300), 0.001, f32)
    expected = f(a)
    with Busy(lambda: (f(large), plain(large))):
        for _ in range(8):

            def work():
                assert f(a) == expected
                assert plain(a) == plain(a)

            assert in_child(work) == 0
    assert f(a) == expected


def test_a_child_compiles_and_plans_while_another_thread_does():
    x = T.matrix("x")
    k = [0]

    def compile_one():
        k[0] += 1
        f = snug.function([x], T.cos(x * k[0]) + k[0], memory="1MiB")
        f(np.ones((2 + k[0] % 7, 3), f32))
        f.memory(x=(5, 5 + k[0]))

    def work():
        f = snug.function([x], T.sin(x) + 12345, memory="1MiB")
        np.testing.assert_allclose(f(np.ones((2, 2), f32)), np.sin(1) + 12345)

    with Busy(compile_one):
        for _ in range(8):
            assert in_child(work) == 0


def test_a_variable_that_a_call_was_changing_has_no_value_in_the_child():
    # The callback runs inside the call, which has the variable.
    W = snug.shared(np.zeros((4,), f32), "W")
    other = snug.shared(np.ones((4,), f32), "other")
    inside, go_on = threading.Event(), threading.Event()

    def wait(_, value):
        inside.set()
        go_on.wait()

    x = T.vector("x")
    shown = snug.printing.Print("x", global_fn=wait)(x)
    f = snug.function([x], [], updates=[(W, W + shown)])
    g = snug.function([x], x + W + other)
    caller = threading.Thread(target=f, args=(np.ones(4, f32),))
    caller.start()
    inside.wait()

    def read():
        for use in (W.get_value, lambda: g(np.ones(4, f32))):
            with pytest.raises(ValueError, match="W has no value in this process"):
                use()
        other.get_value()
        W.set_value(np.full((4,), 5, f32))
        np.testing.assert_array_equal(g(np.ones(4, f32)), np.full(4, 7, f32))

    try:
        assert in_child(read) == 0
    finally:
        go_on.set()
        caller.join()
    np.testing.assert_array_equal(W.get_value(), np.ones(4, f32))


def test_a_loader_goes_on_in_a_child():
    from snug import data

    def loader():
        rows = np.arange(400, dtype=f32).reshape(200, 2)
        return data.Loader(data.arrays(rows), batch=10, seed=3, threads=2)

    expected = [b[0] for b in loader()]
    mine = loader()
    batches = iter(mine)
    first = next(batches)[0]
    np.testing.assert_array_equal(first, expected[0])

    def go_on():
        for a, b in zip(batches, expected[1:], strict=True):
            np.testing.assert_array_equal(a[0], b)
        assert sum(1 for _ in loader()) == 20

    assert in_child(go_on) == 0
    for a, b in zip(batches, expected[1:], strict=True):
        np.testing.assert_array_equal(a[0], b)


# ---- threads that cannot be started


@pytest.mark.skipif(os.getuid() != 0, reason="the limit of threads is of another user")
@pytest.mark.parametrize("more", [1, 2, 3])
def test_fewer_threads_than_asked_for(more):
    # RLIMIT_NPROC counts the threads of a user: one that nobody else is.
    result = run_program(
        f"""
        import os, resource
        import numpy as np, snug, snug.tensor as T
        from snug import data
        os.setresgid(65531, 65531, 65531)
        os.setresuid(65531, 65531, 65531)
        threads = len(os.listdir("/proc/self/task"))
        resource.setrlimit(resource.RLIMIT_NPROC, (threads + {more - 1},) * 2)
        x = T.matrix("x")
        a = np.random.default_rng(0).normal(size=(300, 300)).astype("float32") * 0.1
        f = snug.function([x], T.exp(T.dot(x, x)).sum(axis=0), threads=4)
        np.testing.assert_allclose(f(a), np.exp(a @ a).sum(axis=0), rtol=1e-4)
        try:
            print("batches", sum(1 for _ in data.Loader(data.arrays(a), batch=100, threads=4)))
        except RuntimeError as e:
            print(str(e).splitlines()[0])
        """,
        SNUG_CACHE_DIR="",
    )
    assert result.returncode == 0, result
    assert result.stdout.strip() in (
        "batches 3",
        "device error: Loader: no thread can be started: Resource temporarily unavailable",
    )
    warnings = [line for line in result.stderr.splitlines() if line.startswith("snug: warning")]
    assert len(warnings) == 1 and "the system starts no more threads" in warnings[0], result


# ---- numbers and files of settings


@pytest.mark.parametrize("count", [-1, 10**20, 5000])
def test_numbers_of_threads(count):
    x = T.matrix("x")
    with pytest.raises(ValueError, match="threads"):
        snug.function([x], x, threads=count)
    with pytest.raises(ValueError, match="contexts"):
        snug.function([x], x, contexts=count)
    with pytest.raises(ValueError, match="threads"):
        snug.config.threads = count
    with pytest.raises(ValueError, match="threads"):
        snug.data.Loader(snug.data.arrays(np.ones((4, 2), f32)), threads=count)
    model = nn.Dense(2)
    rows = (np.ones((4, 2), f32), np.zeros(4, "int32"))
    with pytest.raises(ValueError, match="threads"):
        nn.fit(model, rows, epochs=1, threads=count, progress="silent")


def test_flags_with_too_many_threads():
    result = run_program("import snug", SNUG_FLAGS=f"threads={10**20}")
    assert "SNUG_FLAGS: threads: 100000000000000000000 are too many" in result.stderr


def test_a_file_of_settings_that_is_not_utf8(tmp_path):
    rc = tmp_path / "rc"
    rc.write_bytes(b"[global]\nmemory = 1GiB\nname = \xe9t\xe9\n")
    result = run_program("import snug", SNUGRC=str(rc))
    assert f"{rc}:3: is not in UTF-8" in result.stderr


def test_warnings_go_to_stderr(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    result = run_program(
        """
        import snug, snug.tensor as T
        x = T.scalar("x")
        print(snug.function([x], T.exp(x * 3.25) - 7)(0))
        """,
        SNUG_CACHE_DIR=str(folder),
    )
    assert result.stdout == "-6.0\n"
    assert result.stderr.startswith("snug: warning: compiled code is not kept in "), result


# ---- what caches take


def test_plans_that_are_kept_are_bounded_and_told():
    # In a process of its own: what others keep is counted, too.
    result = run_program(
        """
        import numpy as np, snug, snug.tensor as T
        x = T.matrix("x")
        functions = [snug.function([x], T.exp(x * k).sum(axis=0)) for k in range(3)]
        sizes = []
        for n in range(1, 400):
            for f in functions:
                f(np.ones((n, 3), "float32"))
            if n in (100, 399):
                sizes.append(snug.process_memory().caches)
        print(sizes[0] > 0, sizes[1] <= 1.1 * sizes[0])
        for f in functions:
            f.free()
        print(snug.process_memory().caches < sizes[0] / 4)
        print("kept plans have" in str(snug.process_memory()))
        """
    )
    assert result.stdout.split() == ["True"] * 4, result


def test_plans_of_all_functions_together_are_bounded():
    """Shapes that change from call to call, as the lengths of texts do, make plans."""
    result = run_program(
        """
        import numpy as np, snug, snug.tensor as T
        x, w = T.fmatrix("x"), snug.shared(np.eye(4, dtype="float32"))
        def chain():
            y = x
            for _ in range(300):
                y = T.dot(y, w)
            return snug.function([x], y)
        for f in [chain() for _ in range(6)]:
            for n in range(1, 65):
                f(np.ones((n, 4), "float32"))
            print(snug.process_memory().caches)
        """
    )
    bound, (one, *_, all_six) = 64 << 20, map(int, result.stdout.split())
    assert bound / 3 < one < bound and all_six < bound + one / 2
