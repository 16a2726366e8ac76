"""Transactions that let tasks go: discarded they leave no trace, committed they say who goes before who starts."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.label_selector import Requirement
from pumice.engine.decisions import Bind, Decision, Evict, Pipeline
from pumice.engine.engine import Engine
from pumice.engine.fairness.orders.target_order import TargetOrder
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.plugins.builtin.predicates import PredicatesPlugin
from pumice.engine.state.task import Task
from pumice.engine.transaction import Eviction, Transaction
from pumice.model.specs import Constraints, DisruptionBudget, NodeSpec, PodTerm, TaskStatus
from tests.support.engines import everything
from tests.support.examples import fewer_examples
from tests.support.restless import Restless, Taste
from tests.support.taking import SECOND, Shell, taking_engine

seeds = st.integers(0, 2**32 - 1)
HOST = "kubernetes.io/hostname"
RUNS = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)


def explain(gone: Eviction) -> Evict:
    assert gone.task.job is not None
    return Evict(gone.task.key, gone.node.name, gone.task.job.key, "ns/preemptor", "reclaim")


def trace(engine: Engine) -> dict[str, Any]:
    """All that a transaction could touch: accounts, tree, node table, what plugins counted, whose turn it is."""
    nodes, shapes = engine.nodes, list(engine.state.shapes)
    seen = everything(engine)
    for job in seen["state"]["jobs"].values():  # by what tasks ask for; here by shape, which may be several
        del job["unfinished"], job["pending"]
    nodes.sync_idle()
    filters = [plugin for _, plugin in engine.policy.plugins if isinstance(plugin, PredicatesPlugin)]
    now = [(p, shape, p.node_filter_now(shape, nodes)) for p in filters for shape in shapes if shape.coupled]
    for plugin in filters:
        plugin._census.validate()
    return seen | {
        "claims": {n.name: (n.idle, n.releasing, n.pipelined, list(n.waiting)) for n in engine.state.nodes.values()},
        "idle": nodes.idle.tolist(),
        "best": {shape.index: nodes.best_node(shape) for shape in shapes},
        "scores": {shape.index: nodes.scored(shape).scores.tolist() for shape in shapes},
        "kept away": [(shape.index, mask.tolist() if mask is not None else None) for _, shape, mask in now],
        "evictable": {key: engine.policy.evictable(task) for key, task in engine.state.tasks.items() if task.node},
        "flags": {key: (task.owed, task.started, task.status) for key, task in engine.state.tasks.items()},
        "whole": {leaf.path: (list(leaf.integer_target), leaf.counted_owed) for leaf in engine.tree.jobs.values()},
        "unfinished": {job.key: job.unfinished for job in engine.state.jobs.values()},
        "waiting": {
            job.key: {shape.index: [task.key for task in tasks] for shape, tasks in job.pending.items()}
            for job in engine.state.jobs.values()
        },
        "turn": (engine.order.next_job(), engine.order.explain()),
        "said": (
            list(engine.context.decided.decisions),
            list(engine.context.pipelined.tasks),
            list(engine.context.decided.bound),
            engine.context.last_start,
        ),
    }


class Steps:
    """Anything that may be done in transactions, by chance, whether or not it makes sense: there may be no room."""

    def __init__(self, engine: Engine, chance: random.Random) -> None:
        self.engine = engine
        self.chance = chance

    def some(self, transaction: Transaction, most: int = 8, depth: int = 0) -> None:
        for _ in range(self.chance.randint(1, most)):
            luck = self.chance.random()
            if luck < 0.4:
                self.evict(transaction)
            elif luck < 0.5 and transaction.evictions:
                transaction.undo_evict(self.chance.choice(transaction.evictions).task)
            elif luck < 0.75:
                self.pipeline(transaction)
            elif luck < 0.85:
                self.move(transaction)
            elif depth < 2:
                inner = Transaction(self.engine.context, transaction)
                self.some(inner, 4, depth + 1)
                inner.commit() if self.chance.random() < 0.5 else inner.discard()

    def evict(self, transaction: Transaction) -> None:
        engine = self.engine
        running = [
            task
            for task in engine.state.tasks.values()
            if task.status in RUNS and (task.status is not TaskStatus.BINDING or task in engine.context.decided.bound)
            if task.job is not None and task.job.key in engine.tree.jobs
        ]
        if running:
            task = self.chance.choice(running)
            assert task.job is not None
            transaction.evict(task, self.heir(engine.tree.jobs[task.job.key]))

    def heir(self, leaf: JobNode) -> JobNode | None:
        others = [other for other in self.engine.tree.jobs.values() if other is not leaf]
        return self.chance.choice(others) if others and self.chance.random() < 0.4 else None

    def pipeline(self, transaction: Transaction) -> None:
        """A claim, as a preemptor makes it: charged first, then placed."""
        engine = self.engine
        withdrawn = {gone.task for gone in transaction.all_evictions()}  # who had to give does not take
        leaves = engine.tree.jobs.values()
        waiting = [task for leaf in leaves for tasks in leaf.job.pending.values() for task in tasks]
        waiting = [task for task in waiting if task not in withdrawn]
        if waiting and engine.nodes.nodes:
            task = self.chance.choice(waiting)
            assert task.job is not None
            stamp, owed = engine.context.next_start_time(), self.chance.random() < 0.5
            transaction.charge(engine.tree.jobs[task.job.key], task.shape.ask, stamp, 1, owed)
            put = self.chance.choice([transaction.pipeline, transaction.pipeline, transaction.place])
            put(task, self.chance.randrange(len(engine.nodes.nodes)), stamp, owed)

    def move(self, transaction: Transaction) -> None:
        claimed = [task for task, _ in transaction._placed if task.status is TaskStatus.PIPELINED]
        if claimed:
            transaction.move(self.chance.choice(claimed), self.chance.randrange(len(self.engine.nodes.nodes)))


def busy_cluster(seed: int, rule: str) -> tuple[Engine, random.Random]:
    """Jobs run, some tasks are being released, others wait on their nodes, and some were bound in this very cycle."""
    chance = random.Random(seed)
    engine = taking_engine(
        rule, plugins=("priority", "gang", "predicates", "pdb", "nodeorder"), namespaces=chance.random() < 0.5
    )
    shell = Shell(engine, grace=2, audited=False)
    world = Restless(shell, seed, Taste(nodes=4, depth=3, coupled=True, bounds=rule == "capacity"))
    for node in list(engine.state.nodes.values()):
        assert node.spec is not None
        shell.put(NodeSpec(node.name, node.spec.allocatable, labels={HOST: node.name}))
    selector = (Requirement("app", "In", ("x",)),)
    shell.put(DisruptionBudget("ns", "budget", selector, min_available=chance.randint(0, 3)))
    for _ in range(3):
        for _ in range(3):
            world.job()
        shell.cycle()
    world.job()
    engine.cycle(shell.now + SECOND)  # decided, not carried out yet
    return engine, chance


@pytest.mark.parametrize("rule", ["steer", "flat", "paper", "capacity"])
@fewer_examples(3)
@given(seed=seeds)
def test_a_discard_leaves_no_trace(rule: str, seed: int) -> None:
    engine, chance = busy_cluster(seed, rule)
    before = trace(engine)
    for _ in range(3):
        transaction = Transaction(engine.context)
        Steps(engine, chance).some(transaction)
        transaction.discard()
        assert trace(engine) == before


@pytest.mark.parametrize("rule", ["steer", "flat"])
@fewer_examples(3)
@given(seed=seeds)
def test_a_commit_keeps_all_accounts_true_and_says_everything_once(rule: str, seed: int) -> None:
    engine, chance = busy_cluster(seed, rule)
    said = list(engine.context.decided.decisions)
    transaction = Transaction(engine.context)
    Steps(engine, chance).some(transaction)
    gone = list(transaction.evictions)
    placed = {task: task.status for task, _ in transaction._placed}
    transaction.commit((), explain)
    engine.context.decided.drop_withdrawn()
    engine.validate()
    withdrawn = {departure.task.key for departure in gone if departure.was_bound_this_cycle}
    kept = [d for d in said if not (isinstance(d, Bind) and d.task in withdrawn)]
    assert engine.context.decided.decisions[: len(kept)] == kept
    new = engine.context.decided.decisions[len(kept) :]
    victims = [explain(departure) for departure in gone if not departure.was_bound_this_cycle]
    assert new[: len(victims)] == victims, "who goes is said first, in the order in which they went"
    starts = {d.task: type(d) for d in new[len(victims) :] if isinstance(d, Bind | Pipeline)}
    assert len(starts) == len(new) - len(victims)
    assert starts == {t.key: Pipeline if status is TaskStatus.PIPELINED else Bind for t, status in placed.items()}
    for task, status in placed.items():
        assert (task in engine.context.pipelined.tasks) == (status is TaskStatus.PIPELINED)


# --- by hand --------------------------------------------------------------------------------------------------------


def full_node(**more: Any) -> tuple[Shell, Engine]:
    """4 cpu, all of them in use by the jobs ``old`` and ``young`` of one queue; ``new`` waits in another."""
    shell = Shell(taking_engine(actions="allocate", **more), audited=False)
    shell.node("n", 4, labels={HOST: "n"})
    shell.queue("root/a")
    shell.queue("root/b")
    shell.job("a", [(1,)] * 2, name="old")
    shell.job("a", [(1,)] * 2, name="young")
    shell.cycle()
    shell.job("b", [(1,)] * 2, 2, name="new")
    shell.engine.cycle(shell.now + SECOND)
    return shell, shell.engine


def of(engine: Engine, job: str, number: int = 0) -> Task:
    return engine.state.tasks[f"ns/{job}-t-{number}"]


def leaf_of(engine: Engine, job: str) -> JobNode:
    return engine.tree.jobs[f"ns/{job}"]


def test_decisions_come_in_the_order_of_the_steps() -> None:
    _, engine = full_node()
    engine.context.decided.decisions.clear()
    transaction = Transaction(engine.context)
    transaction.charge(leaf_of(engine, "new"), ((0, 2),), 9, 2, True)
    transaction.evict(of(engine, "young", 1))
    transaction.pipeline(of(engine, "new", 0), 0, 9)
    transaction.evict(of(engine, "old", 1))
    transaction.pipeline(of(engine, "new", 1), 0, 9)
    assert engine.context.decided.decisions == []
    transaction.commit((), explain)
    expected: list[Decision] = [
        Evict("ns/young-t-1", "n", "ns/young", "ns/preemptor", "reclaim"),
        Evict("ns/old-t-1", "n", "ns/old", "ns/preemptor", "reclaim"),
        Pipeline("ns/new-t-0", "n", "ns/new"),
        Pipeline("ns/new-t-1", "n", "ns/new"),
    ]
    assert engine.context.decided.decisions == expected
    assert engine.context.pipelined.awaited == dict.fromkeys(
        ["ns/new-t-0", "ns/new-t-1"], ("ns/young-t-1", "ns/old-t-1")
    )
    assert leaf_of(engine, "new").held[0] == 2 and leaf_of(engine, "old").held[0] == 1
    engine.validate()


def test_an_inner_commit_hands_its_departures_up() -> None:
    _, engine = full_node()
    before = trace(engine)
    outer = Transaction(engine.context)
    outer.evict(of(engine, "old"))
    inner = Transaction(engine.context, outer)
    inner.evict(of(engine, "young"))
    assert [gone.task.key for gone in inner.all_evictions()] == ["ns/old-t-0", "ns/young-t-0"]
    inner.commit()
    assert [gone.task.key for gone in outer.evictions] == ["ns/old-t-0", "ns/young-t-0"]
    outer.discard()
    assert trace(engine) == before


def test_an_inner_discard_keeps_the_outer_departures() -> None:
    _, engine = full_node()
    outer = Transaction(engine.context)
    outer.evict(of(engine, "old"))
    inner = Transaction(engine.context, outer)
    inner.evict(of(engine, "old", 1))
    inner.evict(of(engine, "young"))
    inner.discard()
    assert of(engine, "young").status is TaskStatus.RUNNING
    assert [gone.task.key for gone in outer.all_evictions()] == ["ns/old-t-0"]
    assert engine.state.jobs["ns/old"].held[0] == 1
    engine.validate()


def test_undone_eviction_restores_task_and_keeps_other_evictions() -> None:
    _, engine = full_node()
    transaction = Transaction(engine.context)
    first, second, third = of(engine, "old"), of(engine, "young"), of(engine, "old", 1)
    for task in (first, second, third):
        transaction.evict(task)
    transaction.undo_evict(second)
    assert (second.status, second.node) == (TaskStatus.RUNNING, engine.state.nodes["n"])
    assert leaf_of(engine, "young").held[0] == 2 and leaf_of(engine, "old").held[0] == 0
    assert [gone.task for gone in transaction.evictions] == [first, third]
    assert engine.state.nodes["n"].future(0) == 2
    transaction.discard()
    engine.validate()


def test_a_right_that_was_handed_over_comes_back() -> None:
    # 4 cpu, two queues: a is entitled to 2, so rounding gives each of its two jobs (two tasks of 1) one task by right.
    _, engine = full_node()
    assert isinstance(engine.order, TargetOrder)
    old, young = leaf_of(engine, "old"), leaf_of(engine, "young")
    assert (old.integer_target[0], young.integer_target[0]) == (1, 1)
    before = trace(engine)
    transaction = Transaction(engine.context)
    transaction.evict(of(engine, "old", 1), young)
    assert (old.integer_target[0], young.integer_target[0]) == (0, 2)
    transaction.undo_evict(of(engine, "old", 1))
    assert trace(engine) == before
    transaction.evict(of(engine, "old", 1), young)
    transaction.evict(of(engine, "young", 1), old)  # and back, by another task
    assert (old.integer_target[0], young.integer_target[0]) == (1, 1)
    transaction.discard()
    assert trace(engine) == before


def test_evicting_task_bound_in_same_cycle_withdraws_its_bind() -> None:
    shell, engine = full_node()
    shell.node("m", 1)
    shell.job("a", [(1,)], name="late")
    engine.cycle(shell.now + 2 * SECOND)
    late = of(engine, "late")
    assert (
        engine.context.decided.decisions[0] == Bind("ns/late-t-0", "m", "ns/late")
        and late in engine.context.decided.bound
    )
    transaction = Transaction(engine.context)
    transaction.evict(late)
    assert (late.status, late.node, late.owed) == (TaskStatus.PENDING, None, True)
    transaction.undo_evict(late)
    assert late.status == TaskStatus.BINDING and late in engine.context.decided.bound
    transaction.evict(late)
    transaction.commit((), explain)
    engine.context.decided.drop_withdrawn()
    assert not [d for d in engine.context.decided.decisions if isinstance(d, Bind | Evict)], "nobody need know"
    assert engine.state.jobs["ns/late"].pending[late.shape] == [late]
    assert late not in engine.context.decided.bound and leaf_of(engine, "late").held[0] == 0
    engine.validate()


def test_a_claim_that_moves_waits_elsewhere_with_its_stamp() -> None:
    shell, engine = full_node()
    shell.node("m", 1)
    engine.prepare()
    before = trace(engine)
    transaction = Transaction(engine.context)
    new = of(engine, "new")
    here, there = engine.nodes.index["n"], engine.nodes.index["m"]
    transaction.charge(leaf_of(engine, "new"), new.shape.ask, 9, 1, False)
    transaction.pipeline(new, here, 9, owed=False)
    transaction.move(new, there)
    assert (new.node, new.started, new.owed) == (engine.state.nodes["m"], 9, False)
    assert engine.state.nodes["n"].waiting == {} and transaction.changed_nodes() == {there}
    transaction.discard()
    assert trace(engine) == before


def test_a_question_is_asked_without_what_was_charged() -> None:
    _, engine = full_node()
    leaf = leaf_of(engine, "new")
    transaction = Transaction(engine.context)
    transaction.charge(leaf, ((0, 1),), 9, 1, True)
    transaction.charge(leaf, ((0, 1),), 9, 1, True)
    seen: list[int] = []
    assert transaction.without_charges(lambda: not seen.append(leaf.held[0]))  # type: ignore[func-returns-value]  # is None
    assert seen == [0] and leaf.held[0] == 2
    transaction.discard()
    assert leaf.held[0] == 0


@pytest.mark.parametrize("how", ["port", "anti-affinity"])
def test_while_it_is_judged_the_victim_is_out_of_the_way_and_once_decided_it_is_in_it(how: str) -> None:
    apart = PodTerm(HOST, (Requirement("app", "In", ("x",)),))
    constraints = Constraints(ports=(("TCP", "", 80),)) if how == "port" else Constraints(anti_affinity=(apart,))
    shell = Shell(taking_engine(actions="allocate", plugins=("gang", "predicates")), audited=False)
    shell.node("n", 4, labels={HOST: "n"})
    shell.queue("root/a")
    shell.queue("root/b")
    shell.job("a", [(1,)], name="has", constraints=constraints, labels={"app": "x"})
    shell.cycle()
    shell.job("b", [(1,)], name="wants", constraints=constraints, labels={"app": "x"})
    engine = shell.engine
    engine.cycle(shell.now + SECOND)
    has, wants = of(engine, "has"), of(engine, "wants")
    assert not engine.nodes.allows(wants.shape, 0)
    transaction = Transaction(engine.context)
    transaction.evict(has)
    assert engine.nodes.allows(wants.shape, 0), "it must be possible without the victim"
    transaction.discard()
    assert not engine.nodes.allows(wants.shape, 0)
    transaction.evict(has)
    transaction.commit((), explain)
    # Released, not gone: as Kubernetes sees it, it still has its port, and those it keeps away stay away.
    assert not engine.nodes.allows(wants.shape, 0)
