"""``spec.hierarchy`` becomes queues."""

import pytest

from pumice.input_errors import BadInput
from pumice.model.queue_expansion import expand_with_ages, parents_by_hierarchy, without_given_hierarchies
from pumice.model.specs import HierarchyEntry, Queue
from tests.sim.samples import counts, job, node, opened, queue, ran


def entry(name, *below, **parameters):
    return HierarchyEntry(name, tuple(sorted(parameters.items())), below)


def by_name(*queues):
    return {queue.name: queue for queue in queues}


WORKED = Queue(
    "root",
    created=10,
    hierarchy=(
        entry("default", weight=5),
        entry("dev", entry("test1", weight=1, reclaimable=False), entry("test2", weight=2), weight=5),
    ),
)


def made(owner, *others):
    """The queues that a hierarchy makes or changes."""
    return by_name(*expand_with_ages(owner, by_name(owner, *others)))


def test_hierarchy_creates_one_queue_per_entry():
    found = made(WORKED)
    assert list(found) == ["default", "dev", "test1", "test2"]
    dev, test1 = found["dev"], found["test1"]
    assert (dev.parent, dev.weight, dev.hierarchy) == ("root", 5, WORKED.hierarchy[1].hierarchy)
    assert (test1.parent, test1.weight, test1.reclaimable) == ("dev", 1, False)
    assert found["test2"].weight == 2
    places = {"default": ("root", "root"), "dev": ("root", "root"), "test1": ("dev", "root"), "test2": ("dev", "root")}
    assert parents_by_hierarchy([WORKED]) == places


def test_entries_are_as_old_as_they_stand_in_the_file():
    queues = made(WORKED)
    assert [queues[name].created for name in ("default", "dev", "test1", "test2")] == [11, 12, 13, 14]


def test_hierarchy_overrides_only_queue_fields_set_in_entry():
    dev = Queue("dev", created=3, weight=9, priority=4, deserved=(1000,))
    found = made(WORKED, dev)["dev"]
    assert (found.weight, found.priority, found.deserved, found.created) == (5, 4, (1000,), 3)


def test_a_strategy_is_a_parameter_like_any_other():
    assert made(Queue("root", hierarchy=(entry("a", dequeueStrategy="fifo"),)))["a"].fifo


def test_limits_of_users_are_parameters_too():
    root = Queue("root", hierarchy=(entry("a", minUserLimitPercent=25, userLimitFactor=0.5), entry("b")))
    queues = made(root, Queue("b", parent="root", user_limit_factor=2.0))
    assert (queues["a"].min_user_limit_percent, queues["a"].user_limit_factor) == (25, 0.5)
    assert (queues["b"].min_user_limit_percent, queues["b"].user_limit_factor) == (None, 2.0)


def test_and_they_count():
    half = [{"name": "userLimitFactor", "value": "0.5"}]
    simulation = ran(node(cpu=8), queue("root", hierarchy=[{"name": "a", "parameters": half}]), job("j", "a", 8, cpu=1))
    assert counts(simulation) == {"default/j": (4, 4)}


def test_expanding_again_changes_nothing():
    once = made(WORKED)
    assert made(WORKED, *once.values()) == once


WEIGHT = [{"name": "weight", "value": 5}]


@pytest.mark.parametrize("own_first", [True, False])
def test_a_manifest_and_an_entry_of_one_queue_go_together_in_either_order(own_first):
    own, owner = queue("a", weight=2, priority=3), queue("eng", hierarchy=[{"name": "a", "parameters": WEIGHT}])
    simulation = opened(node(cpu=1), *((own, owner) if own_first else (owner, own)), job("j", "a", 1, cpu=1))
    found = simulation.cluster.objects.queues["a"]
    assert (found.parent, found.weight, found.priority) == ("eng", 5, 3)


@pytest.mark.parametrize(
    ("documents", "subject", "reason"),
    [
        (
            [queue("eng", hierarchy=[{"name": "a"}]), queue("other"), queue("a", parent="other")],
            "Queue/a",
            (
                "spec.parent: Forbidden: the hierarchy of queue 'eng' names 'a' as a child of 'eng'; "
                "remove that entry first"
            ),
        ),
        (
            [queue("a", hierarchy=[{"name": "b"}]), queue("b", hierarchy=[{"name": "a"}])],
            "Queue/a",
            "spec.parent: Invalid value: parents form a cycle: a -> b -> a",
        ),
    ],
)
def test_contradiction_of_a_hierarchy_is_refused(documents, subject, reason):
    with pytest.raises(BadInput) as refused:
        opened(*documents)
    first = refused.value.problems[0]
    assert (first.object, first.reason) == (subject, reason)


def test_a_hierarchy_that_was_handed_down_can_be_taken_back():
    queues = by_name(WORKED, *made(WORKED).values())
    (dev,) = without_given_hierarchies(WORKED, queues)
    assert (dev.name, dev.hierarchy, dev.weight) == ("dev", (), 5)


def test_hierarchy_set_by_queue_itself_is_not_withdrawn():
    queues = by_name(WORKED, *made(WORKED).values())
    queues["dev"] = Queue("dev", parent="root", hierarchy=(entry("own"),))
    assert without_given_hierarchies(WORKED, queues) == []


def test_names_at_every_depth_are_found():
    assert parents_by_hierarchy([WORKED]).keys() == {"default", "dev", "test1", "test2"}
