"""The audit of sound engines is clean: random lives, scenario files, and the figures of a small cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.audit.certificate import Certificate, audit
from tests.support.lives import recorded_life


def is_clean(folder: Path) -> Certificate:
    found = audit(folder)
    assert found.clean, "\n".join(map(str, found.findings.kept[:3]))
    return found


@settings(max_examples=12)
@given(seed=st.integers(0, 100_000))
def test_random_lives_are_clean(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    folder = tmp_path_factory.mktemp("life")
    recorded_life(folder, seed, seconds=9)
    assert is_clean(folder).cycles == 9


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_hundreds_of_random_lives_are_clean(tmp_path: Path) -> None:
    evictions = weighed = computed = 0
    for seed in range(400):
        recorded_life(tmp_path / str(seed), seed, seconds=12)
        found = is_clean(tmp_path / str(seed))
        evictions += sum(found.evictions.values())
        weighed += found.weighed
        computed += found.recomputed
    assert evictions > 1000 and weighed > 500 and computed > 500
