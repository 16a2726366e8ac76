"""The wishes of a job about its own tasks: which roles should share a node, and which should not."""

from __future__ import annotations

from dataclasses import dataclass

Groups = tuple[tuple[str, ...], ...]
"""Groups of roles. A group of one role is about its own tasks, a larger one about those of different roles."""


@dataclass(frozen=True, slots=True)
class TaskTopology:
    """Roles that attract or repel one another."""

    affinity: Groups = ()
    anti_affinity: Groups = ()

    def attraction(self, role: str, other: str) -> int:
        """How much a task of a role likes to be beside one of another (or of its own): -1, 0 or 1."""
        return _related(self.affinity, role, other) - _related(self.anti_affinity, role, other)


def _related(groups: Groups, role: str, other: str) -> bool:
    if role == other:
        return (role,) in groups
    return any(role in group and other in group for group in groups)
