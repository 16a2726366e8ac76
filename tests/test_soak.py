"""The soak: its short form, and what it would not let pass."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.soak.pod_audit import NODE_CPU, PodAudit
from benchmarks.soak.run import Report, soak


@pytest.mark.long
@pytest.mark.process
@pytest.mark.timeout(600)
def test_soak_of_a_minute(tmp_path: Path) -> None:
    report = asyncio.run(soak(tmp_path, 60))
    print("\n".join(report.lines()))
    assert not report.wrong
    assert report.kills >= 3 and report.bound >= report.jobs > 10


def test_growth_counts_after_the_start() -> None:
    report = Report(
        memory=[(at, {"up": size}) for at, size in ((0, 10.0), (5_000, 50.0), (10_000, 51.0), (25_000, 53.0))]
    )
    assert report.growth() == (20_000, {"up": 1.5})  # 3 MB for the last 20,000


def _pod(node: str, phase: str = "Running") -> dict[str, object]:
    return {"spec": {"nodeName": node}, "status": {"phase": phase}}


def test_second_binding_and_full_nodes_are_noticed() -> None:
    audit = PodAudit(None)  # type: ignore[arg-type]  # it asks nobody here
    audit._check("ns/a", "a", _pod("n1"))
    audit._check("ns/a", "a", _pod("n1"))
    assert not audit.wrong
    audit._check("ns/a", "a", _pod("n2"))
    assert audit.wrong == ["pod ns/a was on n1 and is on n2"]
    for number in range(NODE_CPU):
        audit._check(f"ns/{number}", str(number), _pod("n3"))
    assert len(audit.wrong) == 1
    audit._check("ns/b", "b", _pod("n3"))
    assert audit.wrong[1] == f"node n3 has {NODE_CPU + 1} pods of 1 cpu, and {NODE_CPU} cpu"
    audit._check("ns/1", "1", _pod("n3", "Succeeded"))
    audit._check("ns/c", "c", _pod("n3"))
    assert len(audit.wrong) == 3
