"""Queues as people delete them, where our controllers run."""

from __future__ import annotations

from tests.support.kubectl import Namespace, queue, vcjob
from tests.support.kubectl_clusters import Clusters


def test_a_queue_goes_with_everything_below_it_where_controllers_run(clusters: Clusters) -> None:
    with clusters.up(1, everything=True) as kubeconfig:
        kubectl = Namespace(kubeconfig, "default")
        kubectl("create", "-f", "-", given=queue("above"))
        kubectl("create", "-f", "-", given=queue("below", parent="above"))
        kubectl("create", "-f", "-", given=vcjob("inside", "below"))
        assert kubectl.object("queue", "above")["metadata"]["finalizers"] == ["pumice.dev/queue"]
        kubectl("delete", "queue", "above", "--timeout=25s")
        left = [found["metadata"]["name"] for found in kubectl.object("queues")["items"]]
        assert left == ["default", "root"]
        assert kubectl.object("vcjob")["items"] == []
