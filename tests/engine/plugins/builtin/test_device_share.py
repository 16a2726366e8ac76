"""deviceshare: whether a card has room, which cards a task gets, and that no card is ever given out twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubebase.resource_vector import Registry
from pumice.config.load import read_config
from pumice.config.plugin_loader import plugin_factories
from pumice.decision_log.records import Memories, standing_of, standing_records
from pumice.engine.checkpoint.restore import EngineSnapshot, restore_engine, snapshot_engine
from pumice.engine.decisions import Bind, Decision, Evict
from pumice.engine.engine import Engine
from pumice.engine.events import BindFailed, Changed, Gone
from pumice.engine.plugins.builtin.device_share import MEMORY, NUMBER, DeviceSharePlugin
from pumice.engine.plugins.plugin import PluginError
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus

CONFIG = """
actions: "allocate, backfill, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins:
  - {name: drf, enableHierarchy: true, arguments: {drf.patience: -1}}
  - {name: predicates}
  - name: deviceshare
    arguments: {deviceshare.GPUSharingEnable: true, deviceshare.GPUNumberEnable: true}
configurations:
- {name: reclaim, arguments: {reclaim.patience: 0, reclaim.minRuntime: 0}}
"""
SIZE = 16


class Cards:
    """A cluster of nodes with cards of 16 units of memory each."""

    def __init__(self, **cards: int) -> None:
        self.registry = Registry()
        self.config = read_config(CONFIG, "test")
        self.engine = Engine(self.config, plugin_factories(self.config), self.registry)
        self.cards = cards
        self.number = 0
        self.now = 0
        for name, count in cards.items():
            offers = {"cpu": 100, "memory": "1Ti", "pods": 100, NUMBER: count, MEMORY: count * SIZE}
            self.engine.apply(Changed(NodeSpec(name, self.registry.vector(offers, where=name))))
        for queue in ("a", "b"):
            self.engine.apply(Changed(Queue(queue)))

    def job(self, tasks: int = 1, queue: str = "a", **asks: int) -> str:
        """A gang whose tasks ask for memory of a card, or for a number of cards."""
        self.number += 1
        name = f"j{self.number}"
        spec = JobSpec("ns", name, queue, created=self.number, min_member=tasks, phase=JobPhase.INQUEUE)
        self.engine.apply(Changed(spec))
        wanted = {{"memory": MEMORY, "number": NUMBER}[key]: amount for key, amount in asks.items()}
        request = self.registry.vector({"cpu": 1, "pods": 1, **wanted}, where="task")
        for index in range(tasks):
            self.engine.apply(Changed(TaskSpec("ns", f"{name}-w-{index}", request, job=f"ns/{name}", created=index)))
        return name

    def cycle(self) -> list[Decision]:
        self.now += 1_000_000
        decisions = self.engine.cycle(self.now)
        self.engine.validate()
        for decision in decisions:
            if isinstance(decision, Bind):  # as the cache shows it, and then the API
                seen = replace(self.spec(decision.task), node=decision.node, status=TaskStatus.BINDING)
                self.engine.apply(Changed(seen))
                done = replace(seen, status=TaskStatus.RUNNING, cards=decision.cards, placed=True)
                self.engine.apply(Changed(done))
        return decisions

    def spec(self, key: str) -> TaskSpec:
        return self.engine.state.tasks[key].spec

    def on(self, job: str) -> list[tuple[str, tuple[int, ...]]]:
        """Node and cards of every placed task of a job."""
        tasks = self.engine.state.jobs[f"ns/{job}"].tasks.values()
        return sorted((task.node.name, task.cards) for task in tasks if task.node is not None)

    def check(self) -> None:
        """No card is used beyond its memory, or by another beside a task that has it for itself."""
        used: dict[tuple[str, int], list[int]] = {}
        at = {name: self.registry.index(name) for name in (MEMORY, NUMBER)}
        for task in self.engine.state.tasks.values():
            if task.status.on_node and task.node is not None:
                asks = dict(task.shape.items)
                number = asks.get(at[NUMBER], 0) // 1000
                assert len(task.cards) == (number or bool(asks.get(at[MEMORY]))), task
                for card in task.cards:
                    assert card < self.cards[task.node.name]
                    size = SIZE if number else asks[at[MEMORY]] // 1000
                    used.setdefault((task.node.name, card), []).append(size)
        assert all(sum(sizes) <= SIZE for sizes in used.values()), used


def test_pods_share_a_card_by_its_memory():
    cluster = Cards(n=2)
    jobs = [cluster.job(memory=amount) for amount in (10, 10, 6, 6)]
    cluster.cycle()
    assert [cluster.on(job) for job in jobs] == [[("n", (0,))], [("n", (1,))], [("n", (0,))], [("n", (1,))]]


def test_memory_on_two_cards_does_not_add_up():
    cluster = Cards(n=2)
    jobs = [cluster.job(memory=amount) for amount in (10, 10, 8)]
    cluster.cycle()
    assert cluster.on(jobs[2]) == []  # 12 units are free on the node, 6 on each card
    cluster.engine.apply(Gone(TaskSpec, f"ns/{jobs[1]}-w-0"))
    cluster.cycle()
    assert cluster.on(jobs[2]) == [("n", (1,))]


def test_a_request_larger_than_every_card_never_fits():
    cluster = Cards(n=2)
    job = cluster.job(memory=SIZE + 1)
    cluster.cycle()
    assert cluster.on(job) == []
    assert not cluster.engine.nodes.possible(next(iter(cluster.engine.state.jobs[f"ns/{job}"].pending)))


def test_a_number_of_cards_is_not_shared():
    cluster = Cards(n=3)
    shared, whole, more = cluster.job(memory=1), cluster.job(number=2), cluster.job(memory=4)
    cluster.cycle()
    assert (cluster.on(shared), cluster.on(whole), cluster.on(more)) == (
        [("n", (0,))],
        [("n", (1, 2))],
        [("n", (0,))],
    )
    another = cluster.job(number=1)
    cluster.cycle()
    assert cluster.on(another) == []


def test_a_gang_starts_only_if_the_cards_suffice():
    cluster = Cards(m=1, n=1)
    too_many, enough = cluster.job(5, memory=8), cluster.job(4, memory=8)
    cluster.cycle()
    assert cluster.on(too_many) == []
    assert cluster.on(enough) == [("m", (0,)), ("m", (0,)), ("n", (0,)), ("n", (0,))]


def test_a_failed_bind_frees_its_card():
    cluster = Cards(n=1)
    first = cluster.job(memory=SIZE)
    decisions = cluster.engine.cycle(1)
    assert [decision.cards for decision in decisions if isinstance(decision, Bind)] == [(0,)]
    cluster.engine.apply(BindFailed(f"ns/{first}-w-0"))
    assert cluster.engine.state.tasks[f"ns/{first}-w-0"].cards == ()
    cluster.cycle()
    assert cluster.on(first) == [("n", (0,))]


def test_a_preemptor_gets_the_card_of_its_victim():
    cluster = Cards(n=2)
    for _ in range(2):
        cluster.job(memory=SIZE, queue="b")
    cluster.cycle()
    preemptor = cluster.job(memory=SIZE, queue="a")
    (victim,) = (decision.task for decision in cluster.cycle() if isinstance(decision, Evict))
    cards = cluster.engine.state.tasks[victim].cards
    cluster.engine.apply(Gone(TaskSpec, victim))
    cluster.cycle()
    assert cluster.on(preemptor) == [("n", cards)]
    cluster.check()


def test_a_restored_engine_knows_the_cards_of_tasks_whose_bind_is_not_confirmed():
    cluster = Cards(n=2)
    cluster.job(memory=10)
    cluster.engine.cycle(1)
    was = snapshot_engine(cluster.engine)
    lines = list(standing_records(was.cluster))
    restored = EngineSnapshot(standing_of(Memories(was.checkpoint), lines), was.checkpoint)
    other = restore_engine(restored, cluster.config, plugin_factories(cluster.config), cluster.registry)
    assert [task.cards for task in other.state.tasks.values()] == [(0,)]


requests = st.one_of(
    st.fixed_dictionaries({"memory": st.integers(1, SIZE)}), st.fixed_dictionaries({"number": st.integers(1, 3)})
)


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(1, 3), requests, st.lists(st.integers(0, 9), max_size=2)),
        min_size=1,
        max_size=8,
    )
)
def test_no_card_is_given_out_twice(history):
    cluster = Cards(m=2, n=3)
    for queue, tasks, asks, finished in history:
        cluster.job(tasks, queue, **asks)
        cluster.cycle()
        cluster.check()
        held = sorted(key for key, task in cluster.engine.state.tasks.items() if task.status is not TaskStatus.PENDING)
        for number in finished:
            if number < len(held):
                cluster.engine.apply(Gone(TaskSpec, held[number]))
    for key in [key for key, task in cluster.engine.state.tasks.items() if task.status is TaskStatus.RELEASING]:
        cluster.engine.apply(Gone(TaskSpec, key))
    cluster.cycle()
    cluster.check()


def test_virtual_gpus_are_refused():
    with pytest.raises(PluginError, match="virtual GPUs are not part of this version"):
        DeviceSharePlugin({"deviceshare.VGPUEnable": True})
    with pytest.raises(PluginError, match="write true or false"):
        DeviceSharePlugin({"deviceshare.GPUSharingEnable": "maybe"})
