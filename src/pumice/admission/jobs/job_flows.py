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
    """The entries of a flow."""
    return spec_of(flow).get("flows") or []


def targets_of(entry: Object) -> list[str]:
    """The entries that come before an entry."""
    return (entry.get("dependsOn") or {}).get("targets") or []


def entries_have_own_names(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """Each template is named once, and a job can be named after it."""
    seen: dict[str, int] = {}
    for i, entry in enumerate(flows_of(request.object)):
        name = str(entry.get("name") or "")
        job = f"{request.name or 'generated'}-{name}"
        if name in seen:
            yield Refusal(
                f"Duplicate value: '{name[:70]}': already the name of entry {seen[name]}", f"{FLOWS}[{i}].name"
            )
        elif len(job) > LONGEST_NAME or not SUBDOMAIN.fullmatch(job):
            message = f"Invalid value: '{name[:70]}': its job would be named {job[:70]!r}, which is not a valid name"
            yield Refusal(message, f"{FLOWS}[{i}].name")
        seen.setdefault(name, i)


def targets_are_entries(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """A job depends on other jobs of the flow."""
    names = {entry.get("name") for entry in flows_of(request.object)}
    for i, entry in enumerate(flows_of(request.object)):
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
    """Warnings for templates that do not exist."""
    namespace = str(metadata_of(flow).get("namespace") or "")
    for i, entry in enumerate(flows_of(flow)):
        name = str(entry.get("name") or "")
        if not world.has_job_template(namespace, name):
            yield f"{FLOWS}[{i}].name: JobTemplate '{name[:70]}' does not exist; the job starts once it does"


RULES = (entries_have_own_names, targets_are_entries, dependencies_have_no_cycle)
