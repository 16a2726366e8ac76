"""Settings of the whole suite: Hypothesis profiles, time limits and child processes.

``HYPOTHESIS_PROFILE`` says how much the property tests try. ``default`` is the same few examples every time, so that a
red suite means a change, not luck. ``long`` is many examples, fresh on each run; what it
finds is printed as a blob to paste above the test.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support.processes import accept_interrupts, end_all_processes

# No profile measures time: on a busy machine that would fail tests which are right.
_TIMELESS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.large_base_example]}

settings.register_profile("default", max_examples=60, derandomize=True, **_TIMELESS)
settings.register_profile("long", max_examples=2000, derandomize=False, print_blob=True, **_TIMELESS)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

TIME_LIMITS = {"long": 7200.0, "kube": 1200.0}
"""Seconds for a test with one of these markers; for all others, see ``timeout`` in pyproject.toml."""


def pytest_configure() -> None:
    accept_interrupts()


def pytest_sessionfinish() -> None:
    end_all_processes()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        limits = [seconds for marker, seconds in TIME_LIMITS.items() if item.get_closest_marker(marker)]
        if limits and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(max(limits)))
