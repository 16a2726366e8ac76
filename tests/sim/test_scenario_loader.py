"""From manifests to the objects a cluster starts with."""

import pytest

from pumice.input_errors import BadInput
from pumice.sim.manifest_files import Manifest
from pumice.sim.scenario import read_scenario
from pumice.sim.scenario_loader import SECOND, decode_problems, load_scenario
from tests.sim.samples import group, job, node, opened, pod, queue, queue_at, scenario


def loaded(*documents):
    return load_scenario(read_scenario([Manifest("try.yaml", document) for document in documents], "try.yaml"))


def problems(*documents):
    return [(problem.object, problem.field) for problem in loaded(*documents).problems]


def messages(*documents):
    return [problem.message for problem in loaded(*documents).problems]


def test_the_order_of_the_file_is_the_age_of_the_objects():
    dated = queue("c")
    dated["metadata"]["creationTimestamp"] = "1970-01-01T00:01:00Z"
    queues = loaded(queue("b"), queue("a"), dated).objects.queues
    assert {name: queues[name].created for name in "bac"} == {"b": SECOND, "a": 2 * SECOND, "c": 60 * SECOND}


def test_default_queue_exists_if_a_job_uses_it():
    assert not loaded(queue("a"), job("j", "a", 1)).objects.queues.keys() - {"a"}
    assert loaded(job("j", "", 1)).objects.queues.keys() == {"default"}
    assert loaded(queue("default", weight=4), job("j", "", 1)).objects.queues["default"].weight == 4


def test_an_object_that_is_repeated_word_for_word_is_one_object():
    found = loaded(queue("a"), queue("a"), job("j", "a", 1), job("j", "a", 1))
    assert not found.problems
    assert len(found.objects.tasks) == 1


@pytest.mark.parametrize(
    ("documents", "second"),
    [
        ((queue("a"), queue("a", weight=2)), "Queue/a"),
        ((queue("a"), job("j", "a", 1), group("j", queue="a")), "PodGroup/default/j"),
        ((queue("a"), group("p", queue="a"), pod("p")), "Pod/default/p"),
        ((node("n", cpu=1), node("n", cpu=2)), "Node/n"),
    ],
)
def test_two_different_objects_of_one_name_are_refused(documents, second):
    found = loaded(*documents)
    assert [(problem.object, problem.field) for problem in found.problems] == [(second, "metadata.name")]
    assert "is already defined in try.yaml" in found.problems[0].message


class TestQueues:
    def test_a_circle_of_parents_is_refused_whole(self):
        found = loaded(queue("a", parent="b"), queue("b", parent="a"), queue("c"))
        assert [(p.object, p.field) for p in found.problems] == [
            ("Queue/a", "spec.parent"),
            ("Queue/b", "spec.parent"),
        ]
        assert found.objects.queues.keys() == {"c"}

    def test_missing_parent_is_refused(self):
        assert problems(queue("a", parent="nope")) == [("Queue/a", "spec.parent")]

    def test_paths_that_conflict(self):
        assert problems(queue_at("a", "root/sci", "1/1"), queue_at("b", "root/sci/dev", "1/1/1")) == [
            ("Queue/b", "metadata.annotations[volcano.sh/hierarchy]")
        ]

    def test_hierarchies_become_queues(self):
        root = queue("root", hierarchy=[{"name": "dev", "hierarchy": [{"name": "test1"}]}])
        found = loaded(root, job("j", "test1", 1))
        assert not found.problems
        assert found.objects.queues["test1"].parent == "dev"

    def test_hierarchies_that_contradict_are_refused(self):
        found = loaded(queue("a", hierarchy=[{"name": "x"}]), queue("b", hierarchy=[{"name": "x"}, {"name": "y"}]))
        assert {(p.object, p.field) for p in found.problems} == {("Queue/b", "spec.hierarchy")}
        assert (
            found.problems[-1].message
            == "Forbidden: the hierarchy of queue 'a' names 'x' as a child of 'a'; remove that entry first"
        )
        assert found.objects.queues.keys() == {"a", "x"}

    def test_a_fault_in_a_queue_that_a_hierarchy_made_is_said_of_that_queue(self):
        below = {"name": "x", "parameters": [{"name": "weight", "value": 0}]}
        assert problems(queue("a", hierarchy=[below])) == [("Queue/a", "spec.hierarchy[0].parameters[0].value")]


class TestJobs:
    def test_need_a_queue_that_exists(self):
        found = loaded(queue("dev"), job("j", "dve", 2), group("g", queue="dev"))
        (problem,) = found.problems
        assert (problem.object, problem.field) == ("Job/default/j", "spec.queue")
        assert "did you mean 'dev'?" in problem.message
        assert found.objects.jobs.keys() == {"default/g"}
        assert not found.objects.tasks

    def test_need_a_queue_that_was_let_in(self):
        (_, message) = messages(queue("dev", parent="nope"), group("g", queue="dev"))
        assert message == "Not found: queue 'dev'"

    def test_for_a_parent_go_to_the_least_used_leaf_below_it(self):
        # b and c weigh the same; the first job goes to b by name, and its 2 cpu send the second to c.
        queues = (node(cpu=8), queue("a"), queue("b", parent="a"), queue("c", parent="a"))
        found = loaded(*queues, job("i", "a", 2, cpu=1), job("j", "a", 2, cpu=1))
        assert not found.problems
        assert {name: one.queue for name, one in found.objects.jobs.items()} == {"default/i": "b", "default/j": "c"}

    def test_for_no_queue_go_to_the_least_used_leaf_of_all(self):
        # Half of the 8 cpu are default's by weight; it runs 1, so both jobs that come go to x, the second with a tie
        # at 1 of 4 cpu that would go to default by its name, were it not for the 2 that the first waits for.
        documents = (node(cpu=8), queue("default"), queue("x"), group("g", queue="default"), pod("p", "g", "n", cpu=1))
        found = loaded(*documents, job("j", "", 2, cpu=1), pod("q", cpu=1))
        assert not found.problems
        queues = {name: one.queue for name, one in found.objects.jobs.items()}
        assert queues == {"default/g": "default", "default/j": "x", "default/q": "default"}

    def test_for_the_queue_of_their_namespace_go_there(self):
        annotations = {"volcano.sh/queue-name": "x"}
        namespace = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "default", "annotations": annotations},
        }
        found = loaded(group("g"), queue("x"), namespace)
        assert found.objects.jobs["default/g"].queue == "x"
        assert "default" not in found.objects.queues

    def test_for_the_root_go_to_the_queue_that_every_cluster_has(self):
        assert loaded(group("g", queue="root")).objects.jobs["default/g"].queue == "default"

    def test_pod_with_unknown_queue_annotation_is_rejected(self):
        document = pod("p", cpu=1)
        document["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": "nope"}
        (problem,) = loaded(queue("dev"), document).problems
        assert (problem.object, problem.field, problem.message) == (
            "Pod/default/p",
            "metadata.annotations[scheduling.volcano.sh/queue-name]",
            "Not found: queue 'nope'; leaf queues: dev",
        )

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"tasks": []}, "spec.tasks: Required value: a job needs at least one task"),
            (
                {"minAvailable": 3},
                "spec.minAvailable: Invalid value: 3: must be less than or equal to the replicas of all tasks (2)",
            ),
            ({"maxRetry": -1}, "spec.maxRetry: Invalid value: -1: must be greater than or equal to 0"),
            (
                {"policies": [{"event": "PodLost", "action": "RestartJob"}]},
                "spec.policies[0]: Unsupported value: 'PodLost': supported values: *, PodFailed, PodEvicted, "
                "PodPending, PodRunning, Unknown, TaskCompleted, TaskFailed, JobUpdated",
            ),
            (
                {"volumes": [{"mountPath": "/x"}]},
                "spec.volumes[0]: Required value: set volumeClaimName or volumeClaim",
            ),
            ({"policies": 3}, "spec.policies: Invalid value: 3: must be a list"),
        ],
    )
    def test_are_refused_as_a_cluster_refuses_them(self, change, reason):
        document = job("j", "dev", 2, cpu=1)
        document["spec"] |= change
        (problem,) = loaded(queue("dev"), document).problems
        assert (problem.object, problem.reason) == ("Job/default/j", reason)

    def test_need_tasks_with_names_of_their_own(self):
        document = job("j", "dev", 2, cpu=1)
        document["spec"]["tasks"] *= 2
        (problem,) = loaded(queue("dev"), document).problems
        assert problem.reason == "spec.tasks[1].name: Duplicate value: 't': already the name of task 0"

    def test_job_without_min_available_uses_minimum_of_tasks(self):
        document = job("j", "dev", 4, cpu=1)
        del document["spec"]["minAvailable"]
        assert loaded(queue("dev"), document).objects.jobs["default/j"].min_member == 4
        document["spec"]["tasks"][0]["minAvailable"] = 3
        assert loaded(queue("dev"), document).objects.jobs["default/j"].min_member == 3

    def test_pod_group_named_by_pod_must_exist(self):
        (problem,) = loaded(queue("a"), group("train", queue="a"), pod("p", "trian")).problems
        assert problem.object == "Pod/default/p"
        assert problem.field == "metadata.annotations[scheduling.k8s.io/group-name]"
        assert "did you mean 'default/train'?" in problem.message

    def test_may_also_come_later(self):
        event = {"cycle": 2, "apply": group("train", queue="a")}
        assert not problems(scenario(events=[event]), queue("a"), pod("p", "train"))


def test_loader_reports_problems_of_all_objects():
    found = problems(node("n", cpu="4GB"), queue("a", parent="b"), queue("b", parent="a"), group("g", queue="x"))
    assert [subject for subject, _ in found] == ["Node/n", "Queue/a", "Queue/b", "PodGroup/default/g"]


def test_a_bad_scenario_object_does_not_hide_bad_objects():
    with pytest.raises(BadInput) as caught:
        opened(scenario(cycle=1), node("n", cpu="4GB"))
    assert [problem.object for problem in caught.value.problems] == ["Scenario/try", "Node/n"]
    assert len(decode_problems([Manifest("f", node("n", cpu="4GB"))])) == 1


def test_simulation_with_invalid_object_is_rejected():
    with pytest.raises(BadInput, match="Queue/a"):
        opened(queue("a", parent="nope"))


def test_unless_the_scenario_expects_it():
    simulation = opened(
        scenario(expect={"errors": [{"object": "Queue/a"}]}),
        node(cpu=1),
        queue("a", parent="nope"),
        group("g", queue="a"),
    )
    assert [problem.object for problem in simulation.errors] == ["Queue/a", "PodGroup/default/g"]
    assert not simulation.cluster.objects.queues
