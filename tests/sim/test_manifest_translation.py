"""What a manifest amounts to."""

import pytest

from kubebase.resource_vector import Registry
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.model.specs import JobSpec, Queue, TaskSpec
from pumice.sim.manifest_translation import translate_manifest
from tests.sim.samples import job, node, pod, queue


def parts(document, created=5):
    return translate_manifest(document, Registry(), created).parts


def refusal(document):
    with pytest.raises(ObjectError) as caught:
        translate_manifest(document, Registry(), 0)
    return caught.value.object, caught.value.field, caught.value.message


def test_most_manifests_are_one_object():
    (described,) = parts(queue("dev", weight=3))
    assert described == Queue("dev", created=5, weight=3)


def test_a_namespace_tells_the_engine_nothing():
    assert parts({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}) == ()


class TestJob:
    def test_is_a_group_of_its_name_and_its_pods(self):
        document = job("train", "dev", 3, least=2, ns="ns", cpu=2)
        document["spec"]["priorityClassName"] = "high"
        document["metadata"]["annotations"] = {"volcano.sh/user": "ada"}
        group, *pods = parts(document)
        assert isinstance(group, JobSpec)
        assert (group.key, group.queue, group.min_member, group.created) == ("ns/train", "dev", 2, 5)
        assert (group.priority_class, group.user) == ("high", "ada")
        assert [pod.key for pod in pods] == ["ns/train-t-0", "ns/train-t-1", "ns/train-t-2"]
        assert {(pod.job, pod.role, pod.request[0], pod.created) for pod in pods} == {("ns/train", "t", 2000, 5)}

    def test_starts_all_of_its_replicas_together_unless_it_says_less(self):
        document = job("train", "dev", 3, cpu=1)
        del document["spec"]["minAvailable"]
        document["spec"]["tasks"].append({"name": "ps", "replicas": 2, "minAvailable": 1})
        group, *pods = parts(document)
        # 3 + 2 replicas
        assert group.min_member == 5
        assert group.min_task_member == {"ps": 1}
        assert [pod.name for pod in pods][3:] == ["train-ps-0", "train-ps-1"]

    def test_hands_what_is_said_about_it_to_its_group_and_its_pods(self):
        document = job("train", "dev", 2, cpu=1)
        document["metadata"] |= {
            "annotations": {"sla-waiting-time": "2m"},
            "labels": {"volcano.sh/preemptable": "false"},
        }
        template = document["spec"]["tasks"][0]["template"]
        template["spec"]["preemptionPolicy"] = "Never"
        group, *pods = parts(document)
        assert (group.longest_wait, group.preemptable) == (120_000_000, False)
        assert {(pod.preempts, pod.preemptable) for pod in pods} == {(False, None)}
        template["metadata"] = {"annotations": {"volcano.sh/preemptable": "true"}}
        assert {pod.preemptable for pod in parts(document)[1:]} == {True}

    @pytest.mark.parametrize("name", ["sla-waiting-time", "volcano.sh/preemptable"])
    def test_job_with_invalid_annotation_is_rejected(self, name):
        document = job("train", "dev", 1)
        document["metadata"]["annotations"] = {name: "perhaps"}
        assert refusal(document)[:2] == ("Job/default/train", f"metadata.annotations[{name}]")

    def test_goes_to_the_default_queue_and_numbers_its_tasks(self):
        document = job("train", "", 1, cpu=1)
        del document["spec"]["tasks"][0]["name"]
        group, pod = parts(document)
        assert group.queue == "default"
        assert pod.name == "train-default0-0"

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            (
                {"containers": [{"resources": {"requests": {"cpu": "1x"}}}]},
                "spec.tasks[0].template.spec.containers[0].resources.requests.cpu",
            ),
            ({"nodeSelector": 3}, "spec.tasks[0].template.spec.nodeSelector"),
        ],
    )
    def test_invalid_pod_spec_is_reported_at_job_template_field(self, change, field):
        document = job("train", "dev", 1)
        document["spec"]["tasks"][0]["template"]["spec"] = change
        assert refusal(document)[:2] == ("Job/default/train", field)

    def test_a_job_of_another_api_is_refused(self):
        document = job("train", "dev", 1) | {"apiVersion": "batch/v1"}
        subject, field, message = refusal(document)
        assert (subject, field) == ("Job/default/train", "apiVersion")
        assert "batch.volcano.sh/v1alpha1" in message


class TestPod:
    @pytest.mark.parametrize("named", ["volcano.sh/queue-name", "scheduling.volcano.sh/queue-name"])
    def test_pending_pod_without_group_gets_own_pod_group(self, named):
        document = pod("p", cpu=1)
        annotations = {
            named: "dev",
            "volcano.sh/user": "ada",
            "sla-waiting-time": "1s",
        }
        document["metadata"]["annotations"] = annotations
        group, task = parts(document)
        assert group == JobSpec("default", "p", "dev", created=5, user="ada", longest_wait=1_000_000)
        assert isinstance(task, TaskSpec)
        assert task.job == group.key

    def test_goes_to_the_default_queue_unless_it_says_otherwise(self):
        assert parts(pod("p"))[0].queue == "default"
        document = pod("p")
        document["metadata"]["labels"] = {"volcano.sh/queue-name": "dev"}
        assert parts(document)[0].queue == "dev"

    @pytest.mark.parametrize("document", [pod("p", on="n", cpu=1), pod("p", "g", cpu=1)], ids=["runs", "has one"])
    def test_otherwise_gets_none(self, document):
        (task,) = parts(document)
        assert isinstance(task, TaskSpec)

    def test_says_how_long_it_waits_in_words_that_mean_something(self):
        document = pod("p")
        document["metadata"]["annotations"] = {"sla-waiting-time": "long"}
        assert refusal(document)[:2] == ("Pod/default/p", "metadata.annotations[sla-waiting-time]")

    def test_pod_of_other_scheduler_gets_no_pod_group(self):
        document = pod("p", cpu=1)
        document["spec"]["schedulerName"] = "other"
        assert len(parts(document)) == 1


def test_an_unknown_kind_is_answered_with_the_closest():
    subject, field, message = refusal(node("n") | {"kind": "Nod"})
    assert (subject, field) == ("Nod/n", "kind")
    assert "did you mean 'Node'?" in message
