"""Reads the annotations of Volcano's plugin task-topology."""

from __future__ import annotations

from collections.abc import Mapping

from pumice.model.task_topology import Groups, TaskTopology

AFFINITY, ANTI_AFFINITY = "volcano.sh/task-topology-affinity", "volcano.sh/task-topology-anti-affinity"


def task_topology(annotations: Mapping[str, str]) -> TaskTopology | None:
    """The roles that a job wants beside or away from one another; None: it does not say."""
    found = TaskTopology(_groups(annotations.get(AFFINITY, "")), _groups(annotations.get(ANTI_AFFINITY, "")))
    return found if found.affinity or found.anti_affinity else None


def _groups(text: str) -> Groups:
    """``ps,worker;evaluator``: groups with semicolons, roles with commas between. Empty and repeated ones are left out.

    Roles that the job does not have match no task.
    """
    groups = (tuple(dict.fromkeys(filter(None, map(str.strip, group.split(","))))) for group in text.split(";"))
    return tuple(dict.fromkeys(filter(None, groups)))
