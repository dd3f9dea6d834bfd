import os
import signal

import pytest

import snug

pytest.register_assert_rewrite("conformance")

# A process started in the background ignores Ctrl-C; the tests that press it need it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="also the tests that take long")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--long") or os.environ.get("SNUG_LONG"):
        return
    skip = pytest.mark.skip(reason="takes long: use --long")
    for item in items:
        if "long" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def default_settings():
    """Every test starts from the same settings and leaves them so."""
    with snug.config.change_flags(floatX="float32", memory=None, mode="fast"):
        yield
