"""Rules of admission as people meet them: through kubectl, in its words, by ``pumice up`` and by our webhooks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.kubectl import Namespace, pod, queue, vcjob
from tests.support.kubectl_clusters import Clusters, embedded_only

DENIED = 'Error from server (Forbidden): {}admission webhook "queues.admission.pumice.dev" denied the request: '
CREATING = DENIED.format('error when creating "STDIN": ')


@pytest.fixture(scope="module")
def kubectl(clusters: Clusters) -> Iterator[Namespace]:
    with clusters.up(1) as kubeconfig:
        yield Namespace(kubeconfig, "default")


def test_admission_reports_all_errors_at_once(kubectl: Namespace) -> None:
    kubectl("create", "-f", "-", given=queue("lab", deserved={"cpu": "4"}))
    wrong = queue("bench", parent="lab", deserved={"cpu": "6"}, guarantee={"resource": {"cpu": "7"}})
    status, said = kubectl.tried("create", "-f", "-", given=wrong)
    assert status == 1
    assert said.startswith(CREATING + "spec.")
    assert "spec.deserved" in said and "spec.guarantee" in said
    assert kubectl.tried("get", "queue", "bench")[0] == 1


def test_defaults_are_visible(kubectl: Namespace) -> None:
    kubectl("create", "-f", "-", given=queue("plain"))
    assert kubectl.object("queue", "plain")["spec"]["parent"] == "root"
    said = kubectl("create", "-f", "-", given=vcjob("sent", "root"))
    created, warning = said.splitlines()
    assert created == "job.batch.volcano.sh/sent created"
    assert warning.startswith("Warning: spec.plugins.horovod: has no effect; supported plugins: env, ")
    made = kubectl.object("vcjob", "sent")
    assert made["spec"]["queue"] != "root"
    assert made["metadata"]["annotations"]["volcano.sh/user"] == "admin"
    assert f"Routed to queue '{made['spec']['queue']}'" in made["metadata"]["annotations"]["pumice.dev/routed"]


def test_dry_runs_and_edits_are_judged_too(kubectl: Namespace) -> None:
    kubectl("create", "-f", "-", given=queue("edited"))
    for dry in ((), ("--dry-run=server",)):
        change = ("patch", "queue", "edited", "--type=merge", "-p", '{"spec":{"parent":"edited"}}', *dry)
        status, said = kubectl.tried(*change)
        assert status == 1 and said.startswith(DENIED.format(""))
    status, said = kubectl.tried("create", "--dry-run=server", "-f", "-", given=queue("child", parent="nowhere"))
    assert (status, said) == (
        1,
        CREATING + "spec.parent: Not found: 'nowhere': create that queue first, or use 'root'\n",
    )


def test_which_queues_stay(kubectl: Namespace, clusters: Clusters) -> None:
    kubectl("create", "-f", "-", given=queue("vault"))
    kubectl("annotate", "queue", "vault", "pumice.dev/protected=true")
    for name, why in (("root", "stands for the cluster"), ("default", "close it"), ("vault", "'vault' is protected")):
        status, said = kubectl.tried("delete", "queue", name)
        assert status == 1 and DENIED.format("") in said and why in said
    kubectl("annotate", "queue", "vault", "pumice.dev/protected-")
    kubectl("delete", "queue", "vault", "--wait=false")
    embedded_only(clusters, "our webhooks cannot know whether our controllers run: they have to let go of the queue")
    assert kubectl.tried("get", "queue", "vault")[0] == 1  # nobody has to: no controllers run here


def test_a_pod_of_another_scheduler_waits_and_its_author_is_told_only_where_ours_runs(
    kubectl: Namespace, clusters: Clusters
) -> None:
    assert "Warning" not in kubectl("create", "-f", "-", given=pod("alone"))
    embedded_only(clusters, "there are other schedulers where Kubernetes is")
    with clusters.up(1, everything=True) as kubeconfig:
        other = Namespace(kubeconfig, "default")
        warning = (
            "Warning: spec.schedulerName: no scheduler named 'default-scheduler' runs in this cluster; use 'pumice'"
        )
        assert warning in other("create", "-f", "-", given=pod("one"))
        for quiet in (pod("two", schedulerName="volcano"), pod("three", nodeName="node-000")):
            assert "Warning" not in other("create", "-f", "-", given=quiet)
