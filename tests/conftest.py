"""Settings of the whole suite: Hypothesis profiles, time limits, child processes, and the quick tests.

``HYPOTHESIS_PROFILE`` says how much the property tests try. ``default`` is the same few examples every time, so that a
red suite means a change, not luck; ``quick`` is half as many. ``fresh`` is a few that no run before has tried, and
``long`` many of them. What these find is printed as a blob to paste above the test, and tried first by the next run
(``.hypothesis/examples``); ``fresh`` does not look for a smaller example, which takes minutes. ``FRESH_EXAMPLES`` says
how many it tries.

The quick tests (``--quick``) are those in ``QUICK_FOLDERS`` without the marker ``process``. They include the tests of
the API client against servers in the same process. Whether a test starts a process is not left to the marker: in these
folders every test is watched, in each run of the suite, and fails if it does so unmarked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.support.processes import accept_interrupts, end_all_processes

# No profile measures time: on a busy machine that would fail tests which are right.
_TIMELESS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.large_base_example]}

settings.register_profile("default", max_examples=25, derandomize=True, **_TIMELESS)
settings.register_profile("quick", max_examples=15, derandomize=True, **_TIMELESS)
# Hypothesis keeps what failed only if it is told to, where CI=true.
_RANDOM = {"derandomize": False, "print_blob": True, "database": DirectoryBasedExampleDatabase(".hypothesis/examples")}
_UNSHRUNK = [Phase.explicit, Phase.reuse, Phase.generate]
settings.register_profile(
    "fresh", max_examples=int(os.environ.get("FRESH_EXAMPLES", "10")), phases=_UNSHRUNK, **_RANDOM, **_TIMELESS
)
settings.register_profile("long", max_examples=2000, **_RANDOM, **_TIMELESS)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# The web page is a process more for each ``pumice up`` of the tests; those that look at the page say --ui.
os.environ.setdefault("PUMICE_UI", "0")

TESTS = Path(__file__).parent
QUICK_FOLDERS = frozenset({"admission", "engine", "kube", "kubebase", "model"})
TIME_LIMITS = {"long": 7200.0, "kube": 1200.0}
"""Seconds for a test with one of these markers; for all others, see ``timeout`` in pyproject.toml."""
PROCESS_EVENTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="only the tests of engine, model, client and rules, without processes"
    )


def pytest_configure() -> None:
    accept_interrupts()
    sys.addaudithook(_watcher.audit)


def pytest_sessionfinish() -> None:
    end_all_processes()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    outside = collection_path.parent == TESTS and collection_path.name not in QUICK_FOLDERS
    return True if outside and config.getoption("quick") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        limits = [seconds for marker, seconds in TIME_LIMITS.items() if item.get_closest_marker(marker)]
        if limits and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(max(limits)))
    if config.getoption("quick"):
        quick = [item for item in items if not _may_start_processes(item)]
        config.hook.pytest_deselected(items=[item for item in items if _may_start_processes(item)])
        items[:] = quick


class _ProcessWatcher:
    """Notices when a test that may not do so starts a process, also in a thread."""

    def __init__(self) -> None:
        self.watching = False
        self.seen: list[str] = []

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.watching and event in PROCESS_EVENTS:
            self.seen.append(f"{event}: {arguments}")

    def run(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Watch one phase of a test."""
        self.watching = _folder(item) in QUICK_FOLDERS and not _may_start_processes(item)
        try:
            result = yield
        finally:
            self.watching = False
            seen, self.seen = self.seen, []
        if seen:
            pytest.fail(
                f"a quick test may not start processes; mark it with @pytest.mark.process: {seen[0]}",
                pytrace=False,
            )
        return result


_watcher = _ProcessWatcher()


def _may_start_processes(item: pytest.Item) -> bool:
    """Tests against a real API server or real nodes start them."""
    return any(item.get_closest_marker(marker) for marker in ("process", "kube", "node"))


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    return (yield from _watcher.run(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    return (yield from _watcher.run(item))
