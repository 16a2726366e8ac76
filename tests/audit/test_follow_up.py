"""Those for whom tasks were evicted have to start, as soon as their node has the room."""

from __future__ import annotations

from pumice.audit.eviction_rules import takings_of
from pumice.audit.findings import Findings
from pumice.audit.follow_up import PATIENT_CYCLES, FollowUp
from pumice.audit.ledger import Ledger
from pumice.audit.log_lines import ChangedLine, Decision, GoneLine, read_line
from pumice.decision_log.records import ENCODER, event_record
from pumice.engine.events import Changed, Event, Gone
from pumice.model.specs import JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus


def tell(ledger: Ledger, *events: Event) -> None:
    for event in events:
        line = read_line(ENCODER.encode(event_record(event)))
        assert isinstance(line, ChangedLine | GoneLine)
        ledger.apply(line)


def task(name: str, status: TaskStatus = TaskStatus.PENDING) -> TaskSpec:
    node = "n0" if status is TaskStatus.RUNNING else None
    return TaskSpec("ns", name, (2,), f"ns/{name}", node=node, status=status)


def decision(does: str, name: str, preemptor: str = "", action: str = "") -> Decision:
    about = f"ns/{name}"
    return Decision(does, task=about, job=about, node="n0", preemptor=preemptor and f"ns/{preemptor}", action=action)


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
    for each in decided:
        ledger.decide(each, 0)
    follow_up.after(ledger, takings_of(decided), decided)
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
