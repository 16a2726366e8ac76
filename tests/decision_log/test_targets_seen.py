"""The digest of all jobs' targets: what is kept from look to look does not change it."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from pumice.decision_log.log_files import log_files
from pumice.decision_log.records import TargetsSeen
from pumice.decision_log.replay import Replayed, replay
from pumice.engine.engine import Engine
from tests.support.lives import KINDS, Life, recorded_life


def digest_of(engine: Engine) -> str:
    """Written down anew, job by job."""
    text = repr([(name, leaf.exact) for name, leaf in engine.tree.jobs.items()])
    return blake2b(text.encode(), digest_size=8).hexdigest()


def test_the_digest_is_that_of_the_present_jobs_and_targets() -> None:
    digests: set[str] = set()
    for seed in range(6):
        engine = KINDS["steer"]()
        life, targets = Life(engine, seed), TargetsSeen()
        for _ in range(12):
            life.second()
            seen = targets.look(engine)
            if seen is not None:
                assert seen.jobs == digest_of(engine)
                digests.add(seen.jobs)
    assert len(digests) > 20


def test_without_comparing_the_recorded_targets_are_told(tmp_path: Path) -> None:
    recorded_life(tmp_path, 4, seconds=10, replaced=0.0)
    (path,) = log_files(tmp_path)
    told: list[list[Replayed]] = []
    for compare in (True, False):
        cycles: list[Replayed] = []
        outcome = replay(path, compare_targets=compare, watch=cycles.append)
        assert outcome.difference is None and outcome.engine is not None
        told.append(cycles)
    assert any(cycle.targets is not None for cycle in told[0])
    assert [(c.number, c.targets, c.decisions) for c in told[0]] == [
        (c.number, c.targets, c.decisions) for c in told[1]
    ]
