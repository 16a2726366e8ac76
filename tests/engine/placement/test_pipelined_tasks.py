"""Pipelined tasks: whose room is not free yet, when they start, and when they wait in vain."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubebase.label_selector import Requirement
from pumice.engine.actions import ACTIONS
from pumice.engine.checkpoint.restore import reconfigured
from pumice.engine.decisions import Bind, Evict, Pipeline
from pumice.engine.events import BindFailed, Changed, EvictFailed, Gone
from pumice.model.specs import (
    Attachment,
    Constraints,
    JobSpec,
    NodeSpec,
    PodTerm,
    Queue,
    QueueState,
    TaskSpec,
    TaskStatus,
    VolumeDemand,
)
from tests.cli.command import pumice_command
from tests.sim.samples import job, node, queue_at, scenario
from tests.support.taking import SECOND, Shell, taking_engine

HOST = "kubernetes.io/hostname"


def two_queues(*sizes: int, grace: int = 2, filled: bool = True, **more: Any) -> Shell:
    """Nodes n0, n1, ... of so many cpu, all of them full of 1-cpu tasks of queue a; b weighs nine times as much."""
    shell = Shell(taking_engine(**more), grace=grace, audited=False)
    for i, size in enumerate(sizes):
        shell.node(f"n{i}", size, labels={HOST: f"n{i}"})
    shell.queue("root/a", "1/1")
    shell.queue("root/b", "1/9")
    if filled:
        shell.job("a", [(1,)] * sum(sizes), name="a")
        shell.cycle()
        assert shell.running("a") == sum(sizes)
    return shell


def waiting(shell: Shell) -> dict[str, str]:
    """Who waits on which node."""
    return {task.key: task.node.name for task in shell.engine.context.pipelined.tasks if task.node is not None}


def bound(shell: Shell) -> list[str]:
    """A cycle; who was bound in it."""
    return [decision.task for decision in shell.cycle() if isinstance(decision, Bind)]


def goes(shell: Shell, *victims: str) -> None:
    """Victims are gone, for good, before their time."""
    for victim in victims:
        del shell.leaving[victim]
        shell.end(victim)


def stays(shell: Shell, victim: str) -> None:
    """A cluster that could not evict a task: it was never seen to go."""
    shell.leaving.pop(victim)
    running = replace(shell.tasks[victim], status=TaskStatus.RUNNING)
    shell.engine.apply(Gone(TaskSpec, victim))
    shell.put(running)


# --- a gang starts whole --------------------------------------------------------------------------------------------


def test_a_gang_waits_until_all_its_room_is_there_then_binds_whole() -> None:
    # Of 5 cpu b is entitled to 4.5: a gang of 4 by right. Its victims go one by one; with the last all four start.
    shell = two_queues(5, grace=9)
    shell.job("b", [(1,)] * 4, 4, name="gang")
    decisions = shell.cycle()
    victims = [decision.task for decision in decisions if isinstance(decision, Evict)]
    assert len(victims) == 4 and len(waiting(shell)) == 4
    for victim in victims[:-1]:
        goes(shell, victim)
        assert bound(shell) == []
    # Three cpu are free, and nobody may have them meanwhile.
    shell.job("a", [(1,)], name="greedy")
    assert bound(shell) == [] and shell.engine.state.nodes["n0"].idle[0] == 0
    goes(shell, victims[-1])
    assert bound(shell) == [f"ns/gang-t-{i}" for i in range(4)]
    assert not shell.engine.context.pipelined.tasks and not shell.engine.context.pipelined.awaited
    shell.engine.validate()


def test_a_gang_on_two_nodes_waits_for_both() -> None:
    shell = two_queues(2, 2, 1, grace=9)
    shell.job("b", [(2,)] * 2, 2, name="gang")
    shell.cycle()
    assert sorted(waiting(shell).values()) == ["n0", "n1"] and len(shell.leaving) == 4
    on = {key: task.node for key, task in shell.tasks.items()}
    goes(shell, *[victim for victim in shell.leaving if on[victim] == "n0"])
    assert bound(shell) == []
    goes(shell, *list(shell.leaving))
    assert bound(shell) == ["ns/gang-t-0", "ns/gang-t-1"]


def test_added_tasks_of_started_job_start_one_by_one() -> None:
    # One task runs already; the next three wait on their own, each for its own victim.
    shell = two_queues(1, 5, grace=9, filled=False)
    shell.job("b", [(1,)], name="b")
    shell.cycle()
    shell.job("a", [(1,)] * 5, name="a")
    shell.cycle()
    for i in (1, 2, 3):
        shell.put(TaskSpec("ns", f"b-t-{i}", (1, 0, 1), job="ns/b", created=9))
    shell.cycle()
    assert len(waiting(shell)) == 3
    # Each waits for its own victim, whoever goes first.
    awaited = {victims[0]: task for task, victims in shell.engine.context.pipelined.awaited.items()}
    for victim in reversed(list(shell.leaving)):
        goes(shell, victim)
        assert bound(shell) == [awaited[victim]]


@pytest.mark.parametrize(("size", "minimum", "first"), [(4, 2, 2), (4, 4, 4), (4, 1, 1)])
def test_tasks_beyond_gang_minimum_start_individually(size: int, minimum: int, first: int) -> None:
    # 5 cpu, entitled to 4. The gang of ``minimum`` waits together, everything after it on its own.
    shell = two_queues(5, grace=9)
    shell.job("b", [(1,)] * size, minimum, name="job")
    shell.cycle()
    assert len(waiting(shell)) == size
    for i in range(size):
        task = f"ns/job-t-{i}"
        for victim in shell.engine.context.pipelined.awaited.get(task, ()):
            if victim in shell.leaving:
                goes(shell, victim)
        started = bound(shell)
        assert len(started) == (first if i == 0 else 0 if i < first else 1), (i, started)


def test_task_beyond_gang_minimum_does_not_overtake_earlier_job() -> None:
    # Tasks of a's end by themselves; b's wait for their room as it is being freed: a gang of 2, one more job, and then
    # a third task of the gang's job. When there is room for three, the third in turn has it.
    shell = two_queues(5)

    def ends(*tasks: int) -> None:
        for i in tasks:
            shell.put(replace(shell.tasks[f"ns/a-t-{i}"], status=TaskStatus.RELEASING))

    ends(0, 1)
    shell.job("b", [(1,)] * 2, 2, name="gang")
    shell.cycle()
    ends(2)
    shell.job("b", [(1,)], name="one")
    shell.cycle()
    ends(3)
    shell.put(TaskSpec("ns", "gang-t-2", (1, 0, 1), job="ns/gang", created=9))
    shell.cycle()
    assert not shell.evictions
    assert list(waiting(shell)) == ["ns/gang-t-0", "ns/gang-t-1", "ns/one-t-0", "ns/gang-t-2"]
    for i in (0, 1, 2):
        shell.end(f"ns/a-t-{i}")
    assert bound(shell) == ["ns/gang-t-0", "ns/gang-t-1", "ns/one-t-0"]
    shell.end("ns/a-t-3")
    assert bound(shell) == ["ns/gang-t-2"]


def test_roles_start_together_and_grow_apart() -> None:
    shell = two_queues(5, grace=9)
    shell.job("b", [(1,)] * 4, 2, name="job", roles=["ps", "w", "w", "w"], minimums={"ps": 1, "w": 1})
    shell.cycle()
    assert len(waiting(shell)) == 4
    awaited = dict(shell.engine.context.pipelined.awaited)
    goes(shell, *awaited["ns/job-t-2"])
    assert bound(shell) == []  # a worker that is not needed for the start does not start without it
    goes(shell, *awaited["ns/job-t-0"])  # those of the ps and of the first worker
    assert bound(shell) == ["ns/job-t-0", "ns/job-t-1", "ns/job-t-2"]
    goes(shell, *awaited["ns/job-t-3"])
    assert bound(shell) == ["ns/job-t-3"]


def test_those_who_wait_for_a_slow_victim_leave_the_room_of_another() -> None:
    # first takes the room of the large task, and second waits for the rest of it; third takes that of a small one,
    # which is gone long before the large one.
    shell = two_queues(6, filled=False, grace=99)
    shell.job("a", [(4,), (1,), (1,)], name="a")
    shell.cycle()
    for name, size in (("first", 2), ("second", 2), ("third", 1)):
        shell.job("b", [(size,)], name=name)
    shell.cycle()
    assert list(waiting(shell)) == ["ns/first-t-0", "ns/second-t-0", "ns/third-t-0"]
    small = shell.evictions[1][1].task
    assert [evict.preemptor for _, evict in shell.evictions] == ["ns/first", "ns/third"] and small != "ns/a-t-0"
    goes(shell, small)
    assert bound(shell) == ["ns/third-t-0"]
    goes(shell, "ns/a-t-0")
    assert bound(shell) == ["ns/first-t-0", "ns/second-t-0"]


# --- in vain --------------------------------------------------------------------------------------------------------


def cordoned(shell: Shell, name: str, size: int) -> None:
    shell.put(NodeSpec(name, (size, 1000, 1000), labels={HOST: name}, unschedulable=True))


def lost(shell: Shell, name: str, size: int) -> None:
    shell.put(NodeSpec(name, (size, 1000, 1000), labels={HOST: name}, ready=False))


def shrunk(shell: Shell, name: str, size: int) -> None:
    shell.put(NodeSpec(name, (size - 1, 1000, 1000), labels={HOST: name}))


def deleted(shell: Shell, name: str, size: int) -> None:
    shell.engine.apply(Gone(NodeSpec, name))


def victim_stays(shell: Shell, name: str, size: int) -> None:
    on = {key: task.node for key, task in shell.tasks.items()}
    stays(shell, next(victim for victim in shell.leaving if on[victim] == name))


@pytest.mark.parametrize("happens", [cordoned, lost, shrunk, deleted, victim_stays])
def test_a_gang_that_can_not_start_waits_again_whole(happens: Callable[[Shell, str, int], None]) -> None:
    shell = two_queues(2, 2, 1, grace=9)
    shell.job("b", [(2,)] * 2, 2, name="gang")
    shell.cycle()
    assert sorted(waiting(shell).values()) == ["n0", "n1"]
    happens(shell, "n1", 2)
    decisions = shell.cycle()
    # Nobody waits on n1 for nothing, nor on n0 for somebody who can not come.
    assert not [d for d in decisions if isinstance(d, Bind)]
    still = waiting(shell)
    assert not still or (len(still) == 2 and [d for d in decisions if isinstance(d, Pipeline)])
    if not still:
        job = shell.engine.state.jobs["ns/gang"]
        assert (job.running, len(next(iter(job.pending.values())))) == (0, 2)
        assert shell.engine.tree.jobs["ns/gang"].held[0] == 0
        assert all(task.owed for task in job.tasks.values())
    shell.engine.validate()


def test_an_eviction_that_failed_sends_its_taker_back() -> None:
    # Nothing was seen of the eviction but its failure. Those four are left alone for half a minute, and there is nobody
    # else: then they are asked again.
    shell = two_queues(5)
    shell.job("b", [(1,)] * 4, 4, name="gang")
    decisions = shell.engine.cycle(shell.now + SECOND)
    first = [decision.task for decision in decisions if isinstance(decision, Evict)]
    for victim in first:
        shell.engine.apply(EvictFailed(victim))
    shell.engine.validate()
    assert shell.engine.state.nodes["n0"].future(0) == -4
    decisions = shell.engine.cycle(shell.now + 2 * SECOND)
    assert not [d for d in decisions if isinstance(d, Bind | Evict)]
    assert not waiting(shell)
    assert not [d for d in shell.engine.cycle(shell.now + 30 * SECOND) if isinstance(d, Evict)]
    assert len([d for d in shell.engine.cycle(shell.now + 31 * SECOND) if isinstance(d, Evict)]) == 4
    shell.engine.validate()


def test_node_shrink_unpipelines_latest_tasks_first(monkeypatch: pytest.MonkeyPatch) -> None:
    # 4 of 5 cpu are claimed by four jobs, one after another. The node is left with 3: two have to go.
    shell = two_queues(5, grace=9)
    for i in range(4):
        shell.job("b", [(1,)], name=f"b{i}")
    shell.cycle()
    came = list(waiting(shell))
    assert len(came) == 4
    # 5 held by a of which 4 are going, 4 waiting: future 0. Two cpu less: -2.
    shell.put(NodeSpec("n0", (3, 1000, 1000), labels={HOST: "n0"}))
    monkeypatch.setitem(ACTIONS, "reclaim", lambda context: None)  # no capacity is taken for them again
    shell.cycle()
    assert list(waiting(shell)) == came[:2]
    shell.engine.validate()


@pytest.mark.parametrize("state", [QueueState.CLOSED, QueueState.PAUSED])
def test_a_queue_that_starts_nothing_any_more_has_nobody_wait(state: QueueState) -> None:
    shell = two_queues(5, grace=3)
    shell.job("b", [(1,)] * 4, 4, name="gang")
    shell.cycle()
    described = shell.engine.state.queues["b"]
    shell.put(replace(described, state=state))
    assert bound(shell) == [] and not waiting(shell)
    shell.settle()
    assert shell.running("b") == 0 and shell.running("a") == 5
    assert shell.engine.state.nodes["n0"].waiting == {}


def test_a_job_that_is_gone_waits_for_nothing() -> None:
    shell = two_queues(5, grace=3)
    shell.job("b", [(1,)] * 4, 4, name="gang")
    shell.cycle()
    shell.engine.apply(Gone(JobSpec, "ns/gang"))
    assert bound(shell) == [] and not waiting(shell)
    shell.engine.validate()
    shell.end_job("ns/gang")
    shell.settle()
    assert shell.running("a") == 5 and not shell.engine.state.nodes["n0"].waiting


def test_a_queue_that_is_gone_waits_for_nothing() -> None:
    shell = two_queues(5, grace=3)
    shell.job("b", [(1,)] * 4, 4, name="gang")
    shell.cycle()
    shell.engine.apply(Gone(Queue, "b"))
    assert bound(shell) == [] and not waiting(shell)
    shell.settle()
    assert shell.running("a") == 5


@pytest.mark.parametrize("how", ["gone", "bind failed"])
def test_a_gang_that_loses_one_who_waits_starts_whole_or_not_at_all(how: str) -> None:
    shell = two_queues(5, grace=1)
    shell.job("b", [(1,)] * 4, 4, name="gang")
    shell.cycle()
    if how == "gone":
        shell.end("ns/gang-t-1")
    else:
        shell.engine.apply(BindFailed("ns/gang-t-1"))
    for _ in range(4):
        shell.cycle()
        assert shell.running("ns/gang") in (0, 4)
        shell.engine.validate()
    assert shell.running("ns/gang") == (0 if how == "gone" else 4)


def test_task_with_room_waits_for_the_gang_it_belongs_to() -> None:
    # The gang waits for its victims. A fifth task of its job would fit on a new node at once, but without the gang it
    # could not work: it waits, and when the queue closes it has never run.
    for closes in (True, False):
        shell = two_queues(5, grace=4)
        shell.job("b", [(1,)] * 4, 4, name="gang")
        shell.cycle()
        assert len(waiting(shell)) == 4
        shell.node("n1", 1)
        shell.put(TaskSpec("ns", "gang-t-4", (1, 0, 1), job="ns/gang", created=9))
        assert bound(shell) == [] and waiting(shell)["ns/gang-t-4"] == "n1"
        shell.engine.validate()
        if closes:
            shell.queue("root/b", "1/9", state=QueueState.CLOSED)
        for _ in range(6):
            shell.cycle()
            assert shell.running("ns/gang") in (0, 5)
            shell.engine.validate()
        assert shell.running("ns/gang") == (0 if closes else 5)


def test_worker_does_not_start_without_its_ps() -> None:
    shell = two_queues(2, 2, 2)
    roles = ["ps", "w", "w"]
    shell.job("b", [(2,), (1,), (1,)], 2, name="job", roles=roles, minimums={"ps": 1, "w": 1})
    shell.cycle()
    where = waiting(shell)
    assert len(where) == 3
    cordoned(shell, where["ns/job-t-0"], 2)
    for _ in range(5):
        shell.cycle()
        assert not shell.running("ns/job") or "ns/job-t-0" in shell.running_tasks("ns/job")


# --- all the victims of a claim -------------------------------------------------------------------------------------


def at_its_capability() -> Shell:
    """Queue a may hold 4 cpu and does, on n0; n1 is empty. A more important job of one task comes."""
    shell = Shell(taking_engine("capacity", plugins=("priority", "gang")), grace=2)
    for name in ("n0", "n1"):
        shell.node(name, 4)
    shell.queue("root/a", capability=((0, 4),))
    shell.job("a", [(1,)] * 4, priority=0, name="low")
    shell.cycle()
    shell.job("a", [(1,)], priority=9, name="high")
    return shell


def test_a_victim_elsewhere_is_waited_for() -> None:
    shell = at_its_capability()
    shell.cycle()
    assert waiting(shell) == {"ns/high-t-0": "n1"} and len(shell.leaving) == 1
    # There is room on n1, but what the queue may hold is held until the victim on n0 is gone, two cycles later.
    assert bound(shell) == []
    assert bound(shell) == []
    assert bound(shell) == ["ns/high-t-0"]


def test_late_news_do_not_make_it_forget_whom_it_waits_for() -> None:
    shell = at_its_capability()
    shell.cycle()
    shell.engine.apply(Changed(replace(shell.tasks["ns/high-t-0"], labels={"seen": "late"})))
    assert waiting(shell) == {"ns/high-t-0": "n1"}
    assert bound(shell) == [] and bound(shell) == []
    assert bound(shell) == ["ns/high-t-0"]


def test_nor_does_a_new_configuration() -> None:
    shell = at_its_capability()
    shell.cycle()
    config = shell.engine.policy.config
    shell.engine = reconfigured(shell.engine, config, {p.name: type(p) for _, p in shell.engine.policy.plugins})
    shell.book = None
    assert waiting(shell) == {"ns/high-t-0": "n1"}
    assert bound(shell) == [] and bound(shell) == []
    assert bound(shell) == ["ns/high-t-0"]


def test_failed_eviction_on_other_node_keeps_queue_within_capability() -> None:
    shell = at_its_capability()
    victims = [d.task for d in shell.engine.cycle(shell.now + SECOND) if isinstance(d, Evict)]
    shell.engine.apply(EvictFailed(victims[0]))
    shell.engine.cycle(shell.now + 2 * SECOND)
    assert shell.engine.tree.root.held[0] <= 4
    shell.engine.validate()


# --- pods that keep others away until they are gone -----------------------------------------------------------------


APART = PodTerm(HOST, (Requirement("app", "In", ("x",)),))
KEEPING_AWAY = {
    "port": Constraints(ports=(("TCP", "", 80),)),
    "anti-affinity": Constraints(anti_affinity=(APART,)),
    "volume limit": Constraints(volumes=VolumeDemand(attached=(Attachment("disk", private=1),))),
    "volume of one pod": Constraints(volumes=VolumeDemand(exclusive=("ns/claim",))),
}


@pytest.mark.parametrize("how", KEEPING_AWAY)
def test_a_terminating_pod_keeps_its_port_and_its_distance(how: str) -> None:
    # There is room for both, but not for both at once: a's pod goes, and b's waits although nothing else is short.
    constraints = KEEPING_AWAY[how]
    shell = two_queues(4, filled=False, plugins=("priority", "gang", "conformance", "predicates"))
    shell.node("n0", 4, labels={HOST: "n0"}, volume_limits=(("disk", 1),))
    shell.job("a", [(3,)], name="a", constraints=constraints, labels={"app": "x"})
    shell.cycle()
    shell.job("b", [(1,)] * 4, name="b", constraints=constraints, labels={"app": "x"})
    # b asks for 4 and is entitled to 3.6 of 4 cpu, a to .4, less than its one task: that may go.
    decisions = shell.cycle()
    assert [d.task for d in decisions if isinstance(d, Evict)] == ["ns/a-t-0"]
    assert waiting(shell) == {"ns/b-t-0": "n0"}
    assert bound(shell) == [] and bound(shell) == []
    assert bound(shell) == ["ns/b-t-0"]


# --- through a scenario ---------------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.parametrize("cycles", [0, 1, 3])
def test_an_evicted_pod_takes_its_cycles_to_be_gone(tmp_path: Path, cycles: int) -> None:
    """``terminationCycles``: evicted in cycle 2, a pod is gone at the end of cycle 2 + n; b starts in the next."""
    documents = [
        scenario(terminationCycles=cycles, events=[{"cycle": 2, "apply": job("late", "b", 2, least=2, cpu=1)}]),
        node(cpu=4),
        queue_at("a", "root/a", "1/1"),
        queue_at("b", "root/b", "1/1"),
        job("early", "a", 8, cpu=1),
    ]
    file = tmp_path / "terminating.yaml"
    file.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    done = pumice_command("run", "-o", "json", file)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    when: dict[str, list[int]] = {}
    for decision in report["decisions"]:
        if decision["type"] in ("evict", "pipeline") or (decision["type"] == "bind" and "late" in decision["pod"]):
            when.setdefault(decision["type"], []).append(decision["cycle"])
    assert when == {"evict": [2, 2], "pipeline": [2, 2], "bind": [3 + cycles] * 2}
    # The controller made the evicted pods anew: 8 tasks, 2 of them run.
    assert {name: (j["running"], j["pending"]) for name, j in report["jobs"].items()} == {
        "default/early": (2, 6),
        "default/late": (2, 0),
    }
