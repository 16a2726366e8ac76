"""Those for whom tasks were evicted have to start, as soon as their node has the room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pumice.audit.eviction_rules import Taking, takings_of
from pumice.audit.findings import Findings
from pumice.audit.follow_up import PATIENT_CYCLES, FollowUp
from pumice.audit.ledger import Ledger
from pumice.audit.log_lines import ChangedLine, Decision, FailedTask, GoneLine, HappenedLine, read_line
from pumice.decision_log.records import ENCODER, event_record
from pumice.engine.events import Changed, Event, Gone
from pumice.model.specs import JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus, Vector


def tell(ledger: Ledger, *events: Event) -> None:
    for event in events:
        line = read_line(ENCODER.encode(event_record(event)))
        assert isinstance(line, ChangedLine | GoneLine)
        ledger.apply(line)


def task(name: str, status: TaskStatus = TaskStatus.PENDING, request: Vector = (2,), job: str = "") -> TaskSpec:
    node = "n0" if status is TaskStatus.RUNNING else None
    return TaskSpec("ns", name, request, f"ns/{job or name}", node=node, status=status)


def decision(does: str, name: str, preemptor: str = "", action: str = "", job: str = "", node: str = "n0") -> Decision:
    taker = preemptor and f"ns/{preemptor}"
    return Decision(does, task=f"ns/{name}", job=f"ns/{job or name}", node=node, preemptor=taker, action=action)


def test_a_place_may_be_awaited_while_others_on_the_node_leave() -> None:
    # 4 cpu: v and w run with 2 each. x takes the place of v and y that of w; w leaves first, and x starts in its room.
    ledger, findings = Ledger(["cpu"]), Findings()
    follow_up = FollowUp(findings)
    tell(ledger, Changed(NodeSpec("n0", (4,))), Changed(Queue("q")), *(Changed(JobSpec("ns", n, "q")) for n in "vwxy"))
    tell(ledger, *(Changed(task(name, TaskStatus.RUNNING)) for name in "vw"), *(Changed(task(name)) for name in "xy"))
    decided = [
        decision("evict", "v", "x", "reclaim"),
        decision("pipeline", "x"),
        decision("evict", "w", "y", "reclaim"),
        decision("pipeline", "y"),
    ]
    takings = takings_of(decided, ledger)
    for each in decided:
        ledger.decide(each, 0)
    follow_up.after(ledger, takings, decided)
    tell(ledger, Gone(TaskSpec, "ns/w"))
    start = decision("bind", "x")
    follow_up.before(ledger, [start])
    ledger.decide(start, 0)
    for _ in range(3 * PATIENT_CYCLES):
        follow_up.before(ledger, ())
    assert not findings.counts
    tell(ledger, Gone(TaskSpec, "ns/v"))
    for _ in range(PATIENT_CYCLES + 1):
        follow_up.before(ledger, ())
    assert findings.counts["evictions for a start"] == 1


def test_only_what_a_job_starts_next_waits_for_its_victims() -> None:
    # v and w run with 2 cpu each. x starts one task after another: x-0 in the place of v, and x-1 beside it, in free
    # room. v stays: x-0 loses its place, and x-1 keeps its own.
    ledger, findings = Ledger(["cpu"]), Findings()
    follow_up = FollowUp(findings)
    tell(ledger, Changed(NodeSpec("n0", (8,))), Changed(Queue("q")), *(Changed(JobSpec("ns", n, "q")) for n in "vwx"))
    tell(ledger, *(Changed(task(name, TaskStatus.RUNNING)) for name in "vw"))
    tell(ledger, *(Changed(task(name, job="x")) for name in ("x-0", "x-1")))
    decided = [
        decision("evict", "v", "x", "reclaim"),
        decision("pipeline", "x-0", job="x"),
        decision("pipeline", "x-1", job="x"),
    ]
    (taking,) = takings_of(decided, ledger)
    assert ([each.task for each in taking.claims], taking.end) == (["ns/x-0"], 1)
    for each in decided:
        ledger.decide(each, 0)
    follow_up.after(ledger, [taking], decided)
    ledger.apply(HappenedLine("evictfailed", FailedTask("ns/v")))
    follow_up.before(ledger, ())
    assert [ledger.tasks[f"ns/x-{n}"].status for n in (0, 1)] == [TaskStatus.PENDING, TaskStatus.PIPELINED]
    assert follow_up.excused == {"the eviction failed": 1}


def test_a_gang_waits_for_its_victims_as_one() -> None:
    ledger = Ledger(["cpu"])
    tell(ledger, Changed(NodeSpec("n0", (6,))), Changed(Queue("q")))
    tell(ledger, Changed(JobSpec("ns", "v", "q")), Changed(JobSpec("ns", "x", "q", min_member=3)))
    tell(ledger, Changed(task("v", TaskStatus.RUNNING)), Changed(task("x-0", TaskStatus.RUNNING, job="x")))
    tell(ledger, *(Changed(task(f"x-{n}", job="x")) for n in (1, 2, 3)))
    decided = [
        decision("evict", "v", "x", "reclaim"),
        *(decision("pipeline", f"x-{n}", job="x") for n in (1, 2, 3)),
        decision("bind", "v"),
    ]
    (taking,) = takings_of(decided, ledger)
    # Of three tasks one runs: two are missing, and the fourth is a start of its own.
    assert [each.task for each in taking.claims] == ["ns/x-1", "ns/x-2"]
    assert [each.task for each in taking.others] == ["ns/x-3", "ns/v"]


def test_only_a_lack_of_what_a_task_asks_for_takes_its_place() -> None:
    # 4 cpu and 2 of memory: x waits with 2 cpu and y with 2 of memory, until others take 1 of the memory.
    ledger = Ledger(["cpu", "memory"])
    follow_up = FollowUp(Findings())
    tell(ledger, Changed(NodeSpec("n0", (4, 2))), Changed(Queue("q")), *(Changed(JobSpec("ns", n, "q")) for n in "xyz"))
    tell(ledger, Changed(task("x", request=(2,))), Changed(task("y", request=(0, 2))))
    decided = [decision("pipeline", "y"), decision("pipeline", "x")]
    for each in decided:
        ledger.decide(each, 0)
    follow_up.after(ledger, [], decided)
    tell(ledger, Changed(task("z", TaskStatus.RUNNING, (0, 1))))
    follow_up.before(ledger, ())
    assert ledger.tasks["ns/x"].status is TaskStatus.PIPELINED
    assert ledger.tasks["ns/y"].status is TaskStatus.PENDING


def test_places_are_lost_in_the_order_in_which_the_scheduler_looks() -> None:
    # 4 cpu, of which v holds 2: x waits for v with 2, and y beside it. v stays. The last one is looked at first, while
    # x still has its place: so y loses its own for lack of room, also where x gets another place in the same cycle.
    ledger = Ledger(["cpu"])
    follow_up = FollowUp(Findings())
    tell(ledger, Changed(NodeSpec("n0", (4,))), Changed(Queue("q")), *(Changed(JobSpec("ns", n, "q")) for n in "vxy"))
    tell(ledger, Changed(task("v", TaskStatus.RUNNING)), Changed(task("x")), Changed(task("y")))
    decided = [decision("evict", "v", "x", "reclaim"), decision("pipeline", "x"), decision("pipeline", "y")]
    takings = takings_of(decided, ledger)
    for each in decided:
        ledger.decide(each, 0)
    follow_up.after(ledger, takings, decided)
    ledger.apply(HappenedLine("evictfailed", FailedTask("ns/v")))
    follow_up.before(ledger, [decision("pipeline", "x")])
    assert [ledger.tasks[f"ns/{name}"].status for name in "xy"] == [TaskStatus.PENDING, TaskStatus.PENDING]


@pytest.mark.parametrize(("spare", "cycles"), [(False, 1), (True, 0)])
def test_two_jobs_evict_each_other_in_vain_only_if_both_hold_what_they_held_before(spare: bool, cycles: int) -> None:
    # x evicts v, starts, and is evicted for v in turn. That is no cycle if another task of x has started in between.
    ledger, findings = Ledger(["cpu"]), Findings()
    follow_up = FollowUp(findings)
    tell(ledger, Changed(NodeSpec("n0", (4,))), Changed(Queue("q")), *(Changed(JobSpec("ns", n, "q")) for n in "vx"))
    tell(ledger, Changed(task("v", TaskStatus.RUNNING)), Changed(task("x")), Changed(task("x2", job="x")))

    def decide(*decided: Decision) -> None:
        takings = takings_of(decided, ledger)
        follow_up.before(ledger, decided)
        for each in decided:
            ledger.decide(each, 0)
        follow_up.after(ledger, takings, decided)

    decide(decision("evict", "v", "x", "reclaim"), decision("pipeline", "x"))
    tell(ledger, Gone(TaskSpec, "ns/v"), Changed(task("v")))
    decide(decision("bind", "x"), *([decision("bind", "x2", job="x")] if spare else []))
    tell(ledger, *(Changed(task(name, TaskStatus.RUNNING, job="x")) for name in (["x", "x2"] if spare else ["x"])))
    decide(decision("evict", "x", "v", "reclaim"), decision("pipeline", "v"))
    assert findings.counts["no eviction cycles"] == cycles


def gang_on_two_nodes(least: int) -> Findings:
    """x-0 has the room of v, which is gone; x-1 that of w on another node, which leaves for y and takes long.

    ``least``: how many of the two must start together.
    """
    ledger, findings = Ledger(["cpu"]), Findings()
    follow_up = FollowUp(findings)
    tell(ledger, *(Changed(NodeSpec(name, (2,))) for name in ("n0", "n1")), Changed(Queue("q")))
    tell(ledger, *(Changed(JobSpec("ns", name, "q")) for name in "vwy"))
    tell(ledger, Changed(JobSpec("ns", "x", "q", min_member=least)))
    tell(ledger, Changed(task("v", TaskStatus.RUNNING)), Changed(replace(task("w", TaskStatus.RUNNING), node="n1")))
    tell(ledger, *(Changed(task(name, job="x")) for name in ("x-0", "x-1")))
    decided = [
        decision("evict", "w", "y", "reclaim", node="n1"),
        decision("evict", "v", "x", "reclaim"),
        decision("pipeline", "x-0", job="x"),
        decision("pipeline", "x-1", job="x", node="n1"),
    ]
    for each in decided:
        ledger.decide(each, 0)
    claim = Taking([decided[1]], [decided[2]], end=2)
    follow_up.after(ledger, [claim], decided)
    tell(ledger, Gone(TaskSpec, "ns/v"))
    for _ in range(3 * PATIENT_CYCLES):
        follow_up.before(ledger, ())
    return findings


def test_a_gang_waits_for_victims_of_others_on_its_other_nodes() -> None:
    assert not gang_on_two_nodes(2).counts


def test_a_task_that_could_start_by_itself_does_not() -> None:
    assert gang_on_two_nodes(1).counts["evictions for a start"] == 1
