"""Which queues may be deleted, and what is deleted with them.

Deleting a queue deletes the queues below it, children first, with all their podgroups and jobs; the queue controller
does that. Admission only decides which queues may not be deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pumice.admission.cluster_view import ClusterView
from pumice.admission.request import Refusal, Request, annotations_of
from pumice.model.specs import DEFAULT_QUEUE, ROOT

PROTECTED: Final = "pumice.dev/protected"
LISTED: Final = 50


@dataclass(frozen=True, slots=True)
class CascadePlan:
    """What is deleted with a queue."""

    queues: list[str]
    """In the order of their deletion: children first, the queue itself last."""
    jobs: list[str]
    """``PodGroup ns/name`` and ``Job ns/name``, the unfinished ones."""
    protected: list[str]
    """Those of the queues that are protected."""


def cascade_plan(queue: str, world: ClusterView) -> CascadePlan:
    """What would be deleted with a queue: for display before a confirmation."""
    queues = [*reversed(world.tree.below(queue)), queue]
    jobs = [job for name in queues for job in world.unfinished(name)]
    return CascadePlan(queues, jobs, [name for name in queues if is_protected(name, world)])


def is_protected(queue: str, world: ClusterView) -> bool:
    """Whether a queue is marked as protected."""
    return bool(annotations_of(world.queues.get(queue, {})).get(PROTECTED) == "true")


def root_and_default_stay(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """``root`` and ``default`` cannot be deleted: every cluster has these two."""
    if request.name == ROOT:
        yield Refusal("queue 'root' stands for the cluster and cannot be deleted")
    if request.name == DEFAULT_QUEUE:
        yield Refusal("queue 'default' cannot be deleted; close it to stop new jobs")
    elif request.name != ROOT and DEFAULT_QUEUE in world.tree.below(request.name):
        yield Refusal(f"queue 'default' is below '{request.name}' and cannot be deleted; give it another parent first")


def protected_queues_stay(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """A protected queue cannot be deleted, nor can its ancestors."""
    found = cascade_plan(request.name, world)
    if found.protected:
        keepers = ", ".join(f"'{name}'" for name in found.protected)
        gone = [f"queue {name}" for name in found.queues] + found.jobs
        more = f" and {len(gone) - LISTED} more" if len(gone) > LISTED else ""
        yield Refusal(
            f"{keepers} {'is' if len(found.protected) == 1 else 'are'} protected (annotation "
            f"{PROTECTED}), so nothing was deleted; this would have gone: "
            f"{', '.join(gone[:LISTED])}{more}"
        )


RULES = (root_and_default_stay, protected_queues_stay)
