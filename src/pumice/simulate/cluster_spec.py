"""The cluster of a simulation: nodes, queues and other objects from manifests, node groups and the workload.

Manifests are read and checked as ``pumice run`` does. Objects of a policy replace those of the same kind and name, so
that a policy can be the same cluster with another weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from kubebase.resource_vector import PODS, Registry, add, fits
from pumice.input_errors import BadInput, Problem
from pumice.model.specs import NodeSpec, Vector
from pumice.sim.manifest_files import SCENARIO, Manifest, read_manifests
from pumice.sim.manifest_translation import manifest_name
from pumice.sim.object_set import ObjectSet
from pumice.sim.scenario import Scenario, ScenarioSpec
from pumice.sim.scenario_loader import load_scenario
from pumice.simulate.node_groups import NodeGroup
from pumice.simulate.policies import Policy
from pumice.simulate.workload import Request
from pumice.simulate.workload_file import WorkloadFile, jobs_read
from pumice.simulate.workload_queues import deserved_by_weight, match_queues, queues_of_paths

_JOB_KINDS = ("Job", "PodGroup", "Pod")


@dataclass(slots=True)
class ClusterSpec:
    """Everything that is there before the first job arrives."""

    registry: Registry
    objects: ObjectSet
    leaf_of: dict[str, str]  # the leaf queue for each queue that the workload names
    vectors: dict[Request, Vector] = field(default_factory=dict)


def load_cluster(
    workload: WorkloadFile, policy: Policy, files: Sequence[str], groups: Sequence[NodeGroup]
) -> ClusterSpec:
    """The cluster of one policy; raises BadInput."""
    registry, objects = _manifest_objects(policy, files)
    for group in groups:
        for node in group.nodes(registry):
            if node.name in objects.nodes:
                message = f"group '{group.name}': node {node.name} is already defined; name the group otherwise"
                raise BadInput([Problem("--nodes", "", "", message)])
            objects.put(node)
    if not objects.nodes:
        raise BadInput([Problem("", "", "", "the cluster has no node: give --nodes, or manifests of nodes with -f")])
    vectors = {request: registry.vector_of_milli({"pods": 1000} | dict(request)) for request in workload.requests}
    _check_requests(workload, vectors, objects.nodes.values())
    if objects.queues.keys() - {"root", "default"}:
        leaf_of = match_queues(workload, objects.queues)
    else:
        made, leaf_of = queues_of_paths(workload)
        if policy.deserves_by_weight:
            parts = deserved_by_weight(made, _capacity(objects))
            made = {name: replace(queue, deserved=parts[name]) for name, queue in made.items()}
        for queue in made.values():
            objects.put(queue)
    return ClusterSpec(registry, objects, leaf_of, vectors)


def _manifest_objects(policy: Policy, files: Sequence[str]) -> tuple[Registry, ObjectSet]:
    """The admitted objects of the manifests; those of the policy take the place of others."""
    manifests = list(read_manifests(files)) if files else []
    changes = read_manifests(policy.objects) if policy.objects else []
    changed = {_identity(manifest) for manifest in changes}
    manifests = [manifest for manifest in manifests if _identity(manifest) not in changed] + list(changes)
    problems = [
        Problem(manifest.file, manifest_name(manifest.document), "kind", "jobs come from the workload; remove it")
        for manifest in manifests
        if manifest.kind in _JOB_KINDS
    ]
    if problems:
        raise BadInput(problems)
    if not manifests:
        return Registry(), ObjectSet()
    kept = tuple(manifest for manifest in manifests if manifest.kind != SCENARIO)
    loaded = load_scenario(Scenario(policy.name, kept[0].file if kept else "", ScenarioSpec(), policy.config, kept))
    if loaded.problems:
        raise BadInput(loaded.problems)
    return loaded.registry, loaded.objects


def _identity(manifest: Manifest) -> str:
    return manifest_name(manifest.document)


def _check_requests(workload: WorkloadFile, vectors: dict[Request, Vector], nodes: Iterable[NodeSpec]) -> None:
    """Refuse tasks that are larger than every node: they would wait until the end."""
    sizes = {node.allocatable for node in nodes}
    problems = []
    for request, vector in vectors.items():
        if not any(fits(vector, size) for size in sizes):
            asked = ", ".join(f"{name} {amount / 1000:g}" for name, amount in request)
            problems.append(workload.request_problem(request, f"a task with {asked} is larger than every node"))
    if problems:
        problems.append(Problem(workload.path, "", "", jobs_read(workload.jobs)))
        raise BadInput(problems)


def _capacity(objects: ObjectSet) -> Vector:
    total: Vector = ()
    for node in objects.nodes.values():
        total = add(total, node.allocatable)
    return tuple(0 if j == PODS else amount for j, amount in enumerate(total))
