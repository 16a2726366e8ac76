"""What queues say of themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pumice.model.objects import Queue
from pumice.service.queues import Queues, statuses
from tests.support.taking import Shell, taking_engine


class Pen:
    def __init__(self) -> None:
        self.said: dict[str, dict[str, Any]] = {}

    def write_queue(self, name: str, status: dict[str, Any]) -> None:
        self.said[name] = status


def test_a_queue_that_loses_its_place_does_not_keep_its_last_numbers() -> None:
    shell = Shell(taking_engine(), audited=False)
    shell.node("n", 4)
    shell.child("a")
    shell.child("b", "a")
    shell.job("b", [(1,)] * 4, 1, name="j")
    shell.cycle()
    pen, time = Pen(), iter(range(100))
    queues = Queues(pen, lambda: float(next(time)))  # type: ignore[arg-type]  # all it needs
    queues.refresh(shell.engine, (), moved=True)
    assert (pen.said["b"]["allocated"]["cpu"], pen.said["b"]["share"], pen.said["b"]["running"]) == ("4m", 1.0, 1)
    # Its parent is named that is not there: it has no place, its job holds nothing anywhere.
    there: Queue = shell.engine.state.queues["b"]
    shell.put(replace(there, parent="nowhere"))
    shell.cycle()
    queues.refresh(shell.engine, (), moved=True)
    assert set(pen.said["b"]["allocated"].values()) == set(pen.said["b"]["entitled"].values()) == {"0"}
    assert (pen.said["b"]["share"], pen.said["b"]["running"]) == (0.0, 1)
    assert statuses(shell.engine).keys() == shell.engine.state.queues.keys()
