"""Small manifests to put scenarios together from."""

from __future__ import annotations

from typing import Any

from pumice.sim.manifest_files import Manifest
from pumice.sim.simulation import Simulation, open_simulation

Document = dict[str, Any]

VOLCANO = "scheduling.volcano.sh/v1beta1"
GROUP = "scheduling.k8s.io/group-name"


def node(name: str = "n", **allocatable: object) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {key.replace("gpu", "nvidia.com/gpu"): v for key, v in allocatable.items()}},
    }


def queue(name: str, **spec: object) -> Document:
    return {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def queue_at(name: str, path: str, weights: str) -> Document:
    annotations = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
    return {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": name, "annotations": annotations}}


def group(name: str, **spec: object) -> Document:
    return {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def pod(name: str, job: str | None = None, on: str | None = None, **requests: object) -> Document:
    document: Document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {GROUP: job} if job else {}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]},
    }
    if on is not None:
        document["spec"]["nodeName"] = on
        document["status"] = {"phase": "Running"}
    return document


def job(name: str, queue: str, replicas: int, *, least: int = 1, ns: str = "default", **requests: object) -> Document:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": ns},
        "spec": {
            "queue": queue,
            "minAvailable": least,
            "tasks": [
                {
                    "name": "t",
                    "replicas": replicas,
                    "template": {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}},
                }
            ],
        },
    }


def scenario(**spec: object) -> Document:
    return {"apiVersion": "pumice.dev/v1", "kind": "Scenario", "metadata": {"name": "try"}, "spec": spec}


def opened(*documents: Document) -> Simulation:
    """These documents as a scenario that is ready to run."""
    return open_simulation([Manifest("try.yaml", document) for document in documents], "try.yaml")


def ran(*documents: Document) -> Simulation:
    """These documents as a scenario that was run."""
    simulation = opened(*documents)
    simulation.run()
    simulation.cluster.engine.validate()
    return simulation


def counts(simulation: Simulation) -> dict[str, tuple[float, float]]:
    """Running and pending tasks of each job."""
    leaves = simulation.cluster.engine.tree.jobs
    return {key: (simulation.running_tasks(leaf), simulation.pending_tasks(leaf)) for key, leaf in leaves.items()}
