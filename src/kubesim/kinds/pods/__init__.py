"""The kind Pod.

``defaults`` and ``validation`` concern the spec, which templates of other kinds carry too; ``admission`` holds the
defaults that depend on the cluster, ``updates`` the fields that may change later, ``binding`` the assignment to a node,
``pod_status`` the status. `resource` combines them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubesim import tables
from kubesim.api import status
from kubesim.api.field_errors import FieldProblem, forbidden
from kubesim.kinds.pods.admission import admit, keep_priority, tolerate
from kubesim.kinds.pods.binding import bind
from kubesim.kinds.pods.defaults import default_pod_spec
from kubesim.kinds.pods.pod_status import check_status, complete_status, first_status
from kubesim.kinds.pods.schema import pod_openapi
from kubesim.kinds.pods.updates import check_spec_update
from kubesim.kinds.pods.validation import check_pod_spec
from kubesim.registry.registry import Context, Object, Resource, Strategy
from kubesim.schema import Schema
from kubesim.tables import pods as table

__all__ = ["FIELDS", "PodStrategy", "bind", "check_pod_spec", "default_pod_spec", "resource"]

FIELDS: Final = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)


NOTHING_RUNS: Final = "nodes are simulated, or run pods as processes without containers"
REFUSED: Final = {
    "attach": f"cannot attach to a pod: {NOTHING_RUNS}; kubectl logs shows when they started and ended",
    "ephemeralcontainers": f"cannot debug a pod with an ephemeral container: {NOTHING_RUNS}",
    "exec": f"cannot execute a command in a pod, or copy files: {NOTHING_RUNS}",
    "portforward": f"cannot forward a port to a pod: {NOTHING_RUNS}",
    "proxy": f"cannot send requests to a pod: {NOTHING_RUNS}",
}
"""What of a pod only a node with containers has."""


class PodStrategy(Strategy):
    """A pod is completed when it is created, and hardly changes afterwards."""

    reads_cluster = True
    has_generation = True
    returns_deleted = True

    def prepare(self, new: Object) -> None:
        """Defaults. A manifest that is applied again need not repeat them."""
        default_pod_spec(new.setdefault("spec", {}))
        tolerate(new["spec"])

    def on_create(self, new: Object, context: Context) -> None:
        """What the cluster adds, and the first status."""
        admit(new, context)
        if new["spec"].get("ephemeralContainers"):
            raise status.invalid(
                "Pod",
                "",
                new["metadata"].get("name", ""),
                [forbidden("spec.ephemeralContainers", "cannot be set on create")],
            )
        new["status"] = first_status(new["spec"], context.now)

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """Neither need it repeat what the cluster has added."""
        keep_priority(new["spec"], old["spec"])

    def on_status(self, new: Object, old: Object, context: Context) -> None:
        """Complete and check a status."""
        complete_status(new.setdefault("status", {}), old.get("status", {}))
        problems = list(check_status(new, old))
        if problems:
            raise status.invalid("Pod", "", old["metadata"]["name"], problems)

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """The problems of the spec."""
        return check_pod_spec(new["spec"])

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """The problems of a change of the spec."""
        return check_spec_update(new["spec"], old["spec"])

    def grace(self, old: Object, asked: int | None) -> int:
        """The grace period of a pod: 0 if it never ran or has finished, else that of the request or the spec."""
        if not old["spec"].get("nodeName") or old.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
            return 0
        seconds: int = old["spec"].get("terminationGracePeriodSeconds", 0) if asked is None else asked
        return seconds if seconds >= 0 else 1


def resource() -> Resource:
    """Pods, as the registry lists them."""
    return Resource(
        group="",
        version="v1",
        plural="pods",
        kind="Pod",
        namespaced=True,
        schema=Schema.sound(pod_openapi),
        strategy=PodStrategy(),
        columns=table.columns(tables.NAME, tables.AGE),
        singular="pod",
        short_names=("po",),
        categories=("all",),
        subresources=frozenset({"status", "binding", "eviction", "log"}),
        fields={field: tuple(field.split(".")) for field in FIELDS},
        refused_subresources=REFUSED,
    )
