"""Budgets, node groups and promises from manifests to decisions, in whole scenarios."""

import pytest

from pumice.engine.decisions import Enqueue, Evict
from pumice.model.queue_expansion import expand_with_ages
from pumice.model.specs import DisruptionBudget, GroupAffinity, HierarchyEntry, Queue
from tests.sim.samples import counts, group, job, node, queue, ran, scenario

CONFIG = """
actions: "enqueue, allocate, reclaim"
tiers:
- plugins:
  - name: gang
  - name: sla
- plugins:
  - name: drf
    enableHierarchy: true
  - name: predicates
  - name: {plugin}
"""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def budget(**spec):
    selector = {"matchLabels": {"app": "web"}}
    metadata = {"name": "b"}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata} | {
        "spec": {"selector": selector, **spec}
    }


def web(name, queue_name, replicas):
    document = job(name, queue_name, replicas, cpu=1)
    document["spec"]["tasks"][0]["template"]["metadata"] = {"labels": {"app": "web"}}
    return document


def evictions(simulation):
    return [(cycle, decision.job) for cycle, decision in simulation.decisions if isinstance(decision, Evict)]


class TestBudgets:
    def run(self, *documents, events):
        return ran(
            scenario(config=CONFIG.format(plugin="pdb"), cycles=6, events=events),
            node(cpu=4),
            queue("old"),
            queue("new"),
            web("a", "old", 4),
            *documents,
        )

    def test_are_followed_as_they_come_change_and_go(self):
        # 2 cpu each by weight. With 4 of 4 to stay nothing goes; with 3 one; without a budget the second too.
        later = [
            {"cycle": 2, "apply": job("b", "new", 2, cpu=1)},
            {"cycle": 3, "apply": budget(minAvailable=3)},
            {"cycle": 5, "delete": {"kind": "PodDisruptionBudget", "name": "b"}},
        ]
        simulation = self.run(budget(minAvailable=4), events=later)
        assert not simulation.errors
        assert evictions(simulation) == [(3, "default/a"), (5, "default/a")]
        assert simulation.cluster.objects.budgets == {}

    def test_invalid_disruption_budget_update_keeps_previous_budget(self):
        simulation = self.run(
            budget(minAvailable=4), events=[{"cycle": 2, "apply": budget(minAvailable=1, maxUnavailable=1)}]
        )
        (error,) = simulation.errors
        assert (error.object, error.field) == ("PodDisruptionBudget/default/b", "spec.maxUnavailable")
        (kept,) = simulation.cluster.objects.budgets.values()
        assert isinstance(kept, DisruptionBudget) and kept.min_available == 4


class TestNodeGroups:
    def test_are_inherited_from_a_hierarchy(self):
        gold = GroupAffinity(required=("gold",))
        entry = HierarchyEntry("dev", (("affinity", gold), ("weight", 2)))
        (dev,) = expand_with_ages(Queue("root", hierarchy=(entry,)), {})
        assert dev.affinity == gold

    @pytest.mark.parametrize(("name", "placed"), [("gold", 2), ("iron", 3), ("tin", 0)])
    def test_decide_where_the_jobs_of_a_tree_run(self, name, placed):
        nodes = []
        for group_name, cpu in (("gold", 2), ("iron", 3)):
            document = node(group_name, cpu=cpu)
            document["metadata"]["labels"] = {"volcano.sh/nodegroup-name": group_name}
            nodes.append(document)
        affinity = {"nodeGroupAffinity": {REQUIRED: [name]}}
        entry = {
            "name": "org",
            "parameters": [{"name": "affinity", "value": affinity}],
            "hierarchy": [{"name": "team"}],
        }
        simulation = ran(
            scenario(config=CONFIG.format(plugin="nodegroup")),
            *nodes,
            queue("root", hierarchy=[entry]),
            job("a", "team", 9, cpu=1),
        )
        assert not simulation.errors
        assert counts(simulation)["default/a"] == (placed, 9 - placed)


def test_a_promise_lets_a_job_in_that_does_not_fit():
    document = group("large", queue="q", minResources={"cpu": 9})
    document["metadata"]["annotations"] = {"sla-waiting-time": "4s"}
    simulation = ran(scenario(config=CONFIG.format(plugin="overcommit"), cycles=6), node(cpu=4), queue("q"), document)
    # Created at second 3 of the file, so its time is up at 7; the first cycle is at 4, one a second.
    entered = [(cycle, decision.job) for cycle, decision in simulation.decisions if isinstance(decision, Enqueue)]
    assert entered == [(4, "default/large")]
