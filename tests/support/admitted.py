"""Objects for admission, in few words, and worlds that know them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pumice.admission import CREATE, ClusterView, Object, Request, Settings, Verdict, admit
from pumice.admission.request import JOB_FLOWS, JOB_TEMPLATES, JOBS, NAMESPACES, NODES, PODGROUPS, QUEUES

KINDS = {
    QUEUES: ("scheduling.volcano.sh/v1beta1", "Queue"),
    PODGROUPS: ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    JOBS: ("batch.volcano.sh/v1alpha1", "Job"),
    JOB_TEMPLATES: ("flow.volcano.sh/v1alpha1", "JobTemplate"),
    JOB_FLOWS: ("flow.volcano.sh/v1alpha1", "JobFlow"),
}
TEMPLATE: Object = {"spec": {"containers": [{"name": "main", "image": "work"}]}}


def queue(name: str, **given: Any) -> Object:
    """A queue: annotations, state and allocated by their names, everything else as fields of its spec."""
    made: Object = {"apiVersion": KINDS[QUEUES][0], "kind": "Queue", "metadata": {"name": name}, "spec": {}}
    for key, value in given.items():
        match key:
            case "annotations" | "finalizers" | "deletionTimestamp" | "labels":
                made["metadata"][key] = value
            case "state" | "allocated":
                made.setdefault("status", {})[key] = value
            case "guarantee":
                made["spec"]["guarantee"] = {"resource": value}
            case _:
                made["spec"][key] = value
    return made


def group(name: str, queue: str = "", phase: str = "", namespace: str = "ns", **spec: Any) -> Object:
    made: Object = {
        "apiVersion": KINDS[PODGROUPS][0],
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec | ({"queue": queue} if queue else {}),
    }
    return made | ({"status": {"phase": phase}} if phase else {})


def job(name: str, queue: str = "", tasks: Iterable[Mapping[str, Any]] | None = None, **spec: Any) -> Object:
    parts = [{"name": "main", "replicas": 1}] if tasks is None else tasks
    return {
        "apiVersion": KINDS[JOBS][0],
        "kind": "Job",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {
            **({"queue": queue} if queue else {}),
            "tasks": [{"template": TEMPLATE, **part} for part in parts],
            **spec,
        },
    }


def job_template(name: str, *tasks: Mapping[str, Any], **spec: Any) -> Object:
    made = job(name, "", tasks or None)
    made["spec"] |= spec
    return {**made, "apiVersion": KINDS[JOB_TEMPLATES][0], "kind": "JobTemplate"}


def job_flow(name: str, **entries: Any) -> Object:
    """A flow: the names of its templates, each with the names of its targets."""
    flows = [{"name": key, **({"dependsOn": {"targets": [*value]}} if value else {})} for key, value in entries.items()]
    about = {"name": name, "namespace": "ns"}
    return {"apiVersion": KINDS[JOB_FLOWS][0], "kind": "JobFlow", "metadata": about, "spec": {"flows": flows}}


def node(name: str, **has: Any) -> Object:
    return {"metadata": {"name": name}, "status": {"allocatable": has}}


def namespace(name: str, default_queue: str = "") -> Object:
    return {
        "metadata": {"name": name, "annotations": {"volcano.sh/queue-name": default_queue} if default_queue else {}}
    }


def world(*objects: Object, settings: Settings | None = None) -> ClusterView:
    """A world in which there are these objects. Nodes and namespaces are those without a kind."""
    made = ClusterView(settings)
    for found in objects:
        tell(made, found)
    return made


def resource_of(found: Object) -> str:
    named = next((resource for resource, (_, kind) in KINDS.items() if kind == found.get("kind")), None)
    return named or (NODES if "status" in found else NAMESPACES)


def tell(made: ClusterView, found: Object) -> None:
    about = found["metadata"]
    made.note(resource_of(found), about.get("namespace", ""), about["name"], found)


def ask(made: ClusterView, found: Object, operation: str = CREATE, old: Object | None = None, **more: Any) -> Verdict:
    """What comes of a request; nothing is stored."""
    new = None if operation == "DELETE" else found
    before = found if operation == "DELETE" else old
    return admit(Request(operation, resource_of(found), new, before, **{"user": "anne", **more}), made)


def put(made: ClusterView, found: Object, **more: Any) -> Verdict:
    """Ask, as an API server would, and store what is let in."""
    about = found["metadata"]
    old = made.queues.get(about["name"]) if resource_of(found) == QUEUES else None
    verdict = ask(made, found, CREATE if old is None else "UPDATE", old, **more)
    if verdict.allowed and verdict.object is not None:
        tell(made, verdict.object)
    return verdict
