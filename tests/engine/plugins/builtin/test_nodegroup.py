"""nodegroup: which nodes a queue's tasks use, and which first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from kubebase.resource_vector import Registry
from pumice.engine.checkpoint.restore import reconfigured
from pumice.engine.config.scheduler_config import parse_config
from pumice.engine.decisions import Bind
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.plugins.builtin.nodegroup import GROUP, NodeGroupPlugin
from pumice.engine.plugins.plugin import PluginError
from pumice.model.specs import GroupAffinity, JobPhase, JobSpec, NodeSpec, Queue, TaskSpec

NODES = {"gold-1": "gold", "iron-1": "iron", "iron-2": "iron", "loose": None}
GOLD, IRON = GroupAffinity(required=("gold",)), GroupAffinity(required=("iron",))


def engine(arguments: str = "{}", more: str = "", nodes: Mapping[str, str | None] = NODES, cpu: int = 4) -> Engine:
    """Nodes by group, and a cluster under drf and nodegroup."""
    text = f"""
actions: "allocate"
tiers:
- plugins: [{{name: gang}}, {{name: drf, enableHierarchy: true, enableNamespaceOrder: false}}]
- plugins:
  - name: nodegroup
    arguments: {arguments}
{more}
"""
    made = Engine(parse_config(text, known_plugins=BUILT_IN, known_actions=["allocate"]), BUILT_IN, Registry())
    for name, group in nodes.items():
        labels = {GROUP: group} if group is not None else {}
        made.apply(Changed(NodeSpec(name, (cpu, 0, 100), labels=labels)))
    return made


def add(made: Engine, queue: str, tasks: int, cpu: int = 1) -> None:
    """A job of the queue's name."""
    made.apply(Changed(JobSpec("ns", queue, queue, phase=JobPhase.INQUEUE)))
    for i in range(tasks):
        made.apply(Changed(TaskSpec("ns", f"{queue}-t-{i}", (cpu, 0, 1), job=f"ns/{queue}", created=i)))


def binds(made: Engine, now: int = 1) -> list[str]:
    """Where tasks went in a cycle, in order."""
    decisions = made.cycle(now)
    made.validate()
    return [decision.node for decision in decisions if isinstance(decision, Bind)]


def used(nodes: Iterable[str]) -> set[str]:
    return set(nodes)


@pytest.mark.parametrize(
    ("affinity", "arguments", "expected"),
    [
        (GOLD, "{}", {"gold-1"}),
        (GroupAffinity(required=("gold", "iron")), "{}", {"gold-1", "iron-1", "iron-2"}),
        (GroupAffinity(required=("tin",)), "{}", set()),
        # Required to avoid: all other groups, but never a node of none.
        (GroupAffinity(required_anti=("gold",)), "{}", {"iron-1", "iron-2"}),
        (GroupAffinity(required_anti=("gold",)), "{strict: false}", {"iron-1", "iron-2"}),
        (GroupAffinity(required=("gold", "iron"), required_anti=("iron",)), "{}", {"gold-1"}),
        # A wish rules nothing out, and lifts no ban.
        (GroupAffinity(preferred=("gold",)), "{}", {"gold-1", "iron-1", "iron-2"}),
        (GroupAffinity(required=("gold",), preferred=("iron",)), "{}", {"gold-1"}),
        (GroupAffinity(required_anti=("iron",), preferred_anti=("iron",)), "{}", {"gold-1"}),
        # Without any: nothing, or what belongs to nobody.
        (None, "{}", set()),
        (None, "{strict: true}", set()),
        (None, "{strict: 'false'}", {"loose"}),
    ],
)
def test_queue_affinity_restricts_tasks_to_allowed_node_groups(
    affinity: GroupAffinity | None, arguments: str, expected: set[str]
) -> None:
    made = engine(arguments)
    made.apply(Changed(Queue("q", affinity=affinity)))
    add(made, "q", 16)  # as many as all four nodes of 4 cpu take
    assert used(binds(made)) == expected


@pytest.mark.parametrize(
    ("affinity", "order"),
    [
        # Two tasks a node: gold first, then iron, by name.
        (GroupAffinity(preferred=("gold",)), ["gold-1"] * 2 + ["iron-1"] * 2 + ["iron-2"] * 2),
        (GroupAffinity(preferred_anti=("gold",)), ["iron-1"] * 2 + ["iron-2"] * 2 + ["gold-1"] * 2),
        (
            GroupAffinity(required=("gold", "iron"), preferred=("iron",)),
            ["iron-1"] * 2 + ["iron-2"] * 2 + ["gold-1"] * 2,
        ),
    ],
)
def test_a_group_that_is_preferred_fills_first(affinity: GroupAffinity, order: list[str]) -> None:
    made = engine(cpu=2)
    made.apply(Changed(Queue("q", affinity=affinity)))
    add(made, "q", 6)
    assert binds(made) == order


def test_the_default_scores_for_room_do_not_outweigh_a_wish() -> None:
    # nodeorder spreads: left alone it would go to an iron node as soon as gold is fuller than that.
    made = engine(more="  - name: nodeorder\n")
    made.apply(Changed(Queue("q", affinity=GroupAffinity(preferred=("gold",)))))
    add(made, "q", 6)
    assert binds(made)[:4] == ["gold-1"] * 4


def test_each_hook_has_its_flag() -> None:
    made = engine(more="    enablePredicate: false\n", cpu=2)
    made.apply(Changed(Queue("q", affinity=GroupAffinity(required=("iron",), preferred=("loose",)))))
    add(made, "q", 8)
    assert used(binds(made)) == set(NODES)
    made = engine(more="    enableNodeOrder: false\n", cpu=2)
    made.apply(Changed(Queue("q", affinity=GroupAffinity(preferred=("iron",)))))
    add(made, "q", 1)
    assert binds(made) == ["gold-1"]


def test_the_nearest_queue_above_that_says_something_counts() -> None:
    made = engine()
    for queue in (
        Queue("root", affinity=IRON),
        Queue("org"),
        Queue("team", parent="org"),
        Queue("rich", affinity=GOLD),
        Queue("heir", parent="rich"),
        Queue("rebel", parent="rich", affinity=IRON),
    ):
        made.apply(Changed(queue))
    for queue in ("team", "heir", "rebel"):
        add(made, queue, 1)
    decisions = made.cycle(1)
    placed = {decision.job: decision.node for decision in decisions if isinstance(decision, Bind)}
    assert placed == {"ns/team": "iron-1", "ns/heir": "gold-1", "ns/rebel": "iron-1"}


def test_waiting_tasks_follow_when_a_queue_changes_its_mind() -> None:
    made = engine(cpu=2)
    queue = Queue("q", affinity=GOLD)
    made.apply(Changed(queue))
    add(made, "q", 9)
    assert binds(made, 1) == ["gold-1"] * 2
    made.apply(Changed(replace(queue, affinity=IRON)))
    # What runs stays; the others go where the queue now says: 2 nodes of 2 cpu.
    assert binds(made, 2) == ["iron-1"] * 2 + ["iron-2"] * 2
    # Above it: the queue says nothing itself any more.
    made.apply(Changed(replace(queue, affinity=None, parent="org")))
    made.apply(Changed(Queue("org", affinity=GroupAffinity(required=("gold", "tin")))))
    assert binds(made, 3) == []
    made.apply(Changed(NodeSpec("tin-1", (2, 0, 100), labels={GROUP: "tin"})))
    assert binds(made, 4) == ["tin-1"] * 2


def test_a_job_that_moves_to_another_queue_moves_to_its_nodes() -> None:
    made = engine()
    made.apply(Changed(Queue("g", affinity=GOLD)))
    made.apply(Changed(Queue("nowhere", affinity=GroupAffinity(required=("tin",)))))
    add(made, "nowhere", 1)
    assert binds(made, 1) == []
    made.apply(Changed(JobSpec("ns", "nowhere", "g", phase=JobPhase.INQUEUE)))
    assert binds(made, 2) == ["gold-1"]


def test_demand_without_eligible_node_group_has_no_entitlement() -> None:
    # 12 cpu, 6 each by weight. No node is tin, so nothing is tin's by right: iron has all 8 it can use.
    made = engine(nodes={name: group for name, group in NODES.items() if group})
    made.apply(Changed(Queue("tin", affinity=GroupAffinity(required=("tin",)))))
    made.apply(Changed(Queue("iron", affinity=IRON)))
    add(made, "tin", 8)
    add(made, "iron", 8)
    made.cycle(1)
    entitled = {leaf.job.key: leaf.target for leaf in made.tree.jobs.values()}
    assert entitled == pytest.approx({"ns/tin": 0.0, "ns/iron": 8.0})


def test_queue_affinity_is_ignored_without_nodegroup_plugin() -> None:
    text = 'actions: "allocate"\ntiers:\n- plugins: [{name: gang}, {name: drf}]\n'
    made = Engine(parse_config(text, known_plugins=BUILT_IN, known_actions=["allocate"]), BUILT_IN, Registry())
    made.apply(Changed(NodeSpec("n", (9, 9, 9))))
    made.apply(Changed(Queue("a", affinity=GOLD)))
    made.apply(Changed(Queue("b", affinity=IRON)))
    add(made, "a", 1)
    add(made, "b", 1)
    assert binds(made) == ["n", "n"]
    assert len(made.state.shapes) == 1


def test_the_rules_go_with_the_plugin() -> None:
    made = engine(cpu=1)
    made.apply(Changed(Queue("q", affinity=GOLD)))
    add(made, "q", 4)
    assert binds(made, 1) == ["gold-1"]
    text = 'actions: "allocate"\ntiers:\n- plugins: [{name: gang}, {name: drf}]\n'
    made = reconfigured(made, parse_config(text, known_plugins=BUILT_IN, known_actions=["allocate"]), BUILT_IN)
    assert binds(made, 2) == ["iron-1", "iron-2", "loose"]


def test_reasons() -> None:
    made = engine()
    made.apply(Changed(Queue("q", affinity=GOLD)))
    add(made, "q", 1)
    made.prepare()
    (plugin,) = [plugin for _, plugin in made.policy.plugins if plugin.name == "nodegroup"]
    (shape,) = made.state.jobs["ns/q"].pending
    ((reason, passes),) = plugin.node_reasons(shape, made.nodes)
    assert (reason, int((~passes).sum())) == ("not in a node group that the queue may use", 3)


def test_arguments_that_make_no_sense() -> None:
    with pytest.raises(PluginError, match="strict is 'maybe'; write true or false") as caught:
        NodeGroupPlugin({"strict": "maybe"})
    assert caught.value.argument == "strict"
