"""Rules about JobFlows: names, targets, and dependencies without a cycle.

A JobTemplate that does not exist is only warned of: people apply the files of a folder in any order, and the flow waits
for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pumice.admission.cluster_view import ClusterView
from pumice.admission.queues.queue_parent import SUBDOMAIN
from pumice.admission.request import Object, Refusal, Request, metadata_of, spec_of

FLOWS: Final = "spec.flows"
LONGEST_NAME: Final = 253


def flows_of(flow: Object) -> list[Object]:
    """The entries of a flow. A name makes one job: of entries with the same name only the first counts."""
    found: dict[str, Object] = {}
    for entry in _listed(flow):
        found.setdefault(str(entry.get("name") or ""), entry)
    return list(found.values())


def _listed(flow: Object) -> list[Object]:
    """The entries as they are written."""
    return spec_of(flow).get("flows") or []


def targets_of(entry: Object) -> list[str]:
    """The entries that come before an entry."""
    return (entry.get("dependsOn") or {}).get("targets") or []


def jobs_can_be_named(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """A job can be named after the flow and its template."""
    for i, entry in enumerate(_listed(request.object)):
        name = str(entry.get("name") or "")
        job = f"{request.name or 'generated'}-{name}"
        if len(job) > LONGEST_NAME or not SUBDOMAIN.fullmatch(job):
            message = f"Invalid value: '{name[:70]}': its job would be named {job[:70]!r}, which is not a valid name"
            yield Refusal(message, f"{FLOWS}[{i}].name")


def targets_are_entries(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """A job depends on other jobs of the flow."""
    names = {entry.get("name") for entry in _listed(request.object)}
    for i, entry in enumerate(_listed(request.object)):
        for j, target in enumerate(targets_of(entry)):
            if target not in names:
                message = f"Not found: '{target[:70]}': {FLOWS} has no such name"
                yield Refusal(message, f"{FLOWS}[{i}].dependsOn.targets[{j}]")


def dependencies_have_no_cycle(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """No job depends on itself, directly or through others."""
    graph = {str(entry.get("name")): targets_of(entry) for entry in flows_of(request.object)}
    if cycle := find_cycle(graph):
        yield Refusal(f"Invalid value: jobs depend on each other in a cycle: {' -> '.join(cycle)}", FLOWS)


def find_cycle(graph: Mapping[str, Sequence[str]]) -> list[str]:
    """A cycle as a path that ends where it begins; empty if there is none. Unknown names have no dependencies."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        on_path: set[str] = set()
        stack = [(start, iter(graph[start]))] if start not in done else []
        while stack:
            name, rest = stack[-1]
            if name not in on_path:
                path.append(name)
                on_path.add(name)
            following = next(rest, None)
            if following is None:
                stack.pop()
                path.pop()
                on_path.remove(name)
                done.add(name)
            elif following in on_path:
                return [*path[path.index(following) :], following]
            elif following in graph and following not in done:
                stack.append((following, iter(graph[following])))
    return []


def flow_warnings(flow: Object, world: ClusterView) -> Iterator[str]:
    """Warnings for templates that do not exist, and for entries that make no job."""
    namespace = str(metadata_of(flow).get("namespace") or "")
    seen: dict[str, int] = {}
    for i, entry in enumerate(_listed(flow)):
        name = str(entry.get("name") or "")
        if name in seen:
            yield f"{FLOWS}[{i}]: has no effect; {FLOWS}[{seen[name]}] makes the job '{name[:70]}' already"
        elif not world.has_job_template(namespace, name):
            yield f"{FLOWS}[{i}].name: JobTemplate '{name[:70]}' does not exist; the job starts once it does"
        seen.setdefault(name, i)


RULES = (jobs_can_be_named, targets_are_entries, dependencies_have_no_cycle)
