"""``spec.hierarchy`` becomes queues."""

from pumice.model.objects import HierarchyEntry, Queue
from pumice.sim.hierarchy import expand, named_in, released
from tests.sim.samples import counts, job, node, queue, ran


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


def test_one_object_makes_a_queue_of_every_entry():
    found = expand(by_name(WORKED))
    assert list(found.queues) == ["default", "dev", "test1", "test2"]
    dev, test1 = found.queues["dev"], found.queues["test1"]
    assert (dev.parent, dev.weight, dev.hierarchy) == ("root", 5, WORKED.hierarchy[1].hierarchy)
    assert (test1.parent, test1.weight, test1.reclaimable) == ("dev", 1, False)
    assert found.queues["test2"].weight == 2
    assert found.owner == {"default": "root", "dev": "root", "test1": "dev", "test2": "dev"}
    assert not found.conflicts


def test_entries_are_as_old_as_they_stand_in_the_file():
    queues = expand(by_name(WORKED)).queues
    assert [queues[name].created for name in ("default", "dev")] == [11, 12]


def test_what_a_queue_says_itself_stays_unless_the_hierarchy_names_it():
    dev = Queue("dev", created=3, weight=9, priority=4, deserved=(1000,))
    found = expand(by_name(WORKED, dev)).queues["dev"]
    assert (found.weight, found.priority, found.deserved, found.created) == (5, 4, (1000,), 3)


def test_a_strategy_is_a_parameter_like_any_other():
    root = Queue("root", hierarchy=(entry("a", dequeueStrategy="fifo"),))
    assert expand(by_name(root)).queues["a"].fifo


def test_limits_of_users_are_parameters_too():
    root = Queue("root", hierarchy=(entry("a", minUserLimitPercent=25, userLimitFactor=0.5), entry("b")))
    queues = expand(by_name(root, Queue("b", parent="root", user_limit_factor=2.0))).queues
    assert (queues["a"].min_user_limit_percent, queues["a"].user_limit_factor) == (25, 0.5)
    assert (queues["b"].min_user_limit_percent, queues["b"].user_limit_factor) == (None, 2.0)


def test_and_they_count():
    half = [{"name": "userLimitFactor", "value": "0.5"}]
    simulation = ran(node(cpu=8), queue("root", hierarchy=[{"name": "a", "parameters": half}]), job("j", "a", 8, cpu=1))
    assert counts(simulation) == {"default/j": (4, 4)}


def test_expanding_again_changes_nothing():
    once = expand(by_name(WORKED))
    again = expand(by_name(WORKED, *once.queues.values()))
    assert again.queues == once.queues
    assert not again.conflicts


def test_a_queue_that_is_elsewhere_already_is_a_conflict():
    found = expand(by_name(WORKED, Queue("other"), Queue("test1", parent="other")))
    assert found.conflicts == [("dev", "'test1' is below 'other' already; take it out of one of the two")]


def test_two_hierarchies_can_not_both_have_a_queue():
    a, b = Queue("a", hierarchy=(entry("x"),)), Queue("b", hierarchy=(entry("x"),))
    found = expand(by_name(a, b))
    assert found.queues["x"].parent == "a"
    assert [name for name, _ in found.conflicts] == ["b"]


def test_queues_that_have_each_other_as_children_go_round_in_a_circle():
    a, b = Queue("a", hierarchy=(entry("b"),)), Queue("b", hierarchy=(entry("a"),))
    found = expand(by_name(a, b))
    assert "circle" in found.conflicts[0][1]


def test_a_hierarchy_that_was_handed_down_can_be_taken_back():
    queues = by_name(WORKED, *expand(by_name(WORKED)).queues.values())
    (dev,) = released(WORKED, queues)
    assert (dev.name, dev.hierarchy, dev.weight) == ("dev", (), 5)


def test_one_that_a_queue_wrote_itself_stays_its_own():
    queues = by_name(WORKED, *expand(by_name(WORKED)).queues.values())
    queues["dev"] = Queue("dev", parent="root", hierarchy=(entry("own"),))
    assert released(WORKED, queues) == []


def test_names_at_every_depth_are_found():
    assert named_in(by_name(WORKED)) == {"default", "dev", "test1", "test2"}
