"""A rule of a job about its roles: tasks of different roles then have different shapes (see ``TaskTopologyPlugin``)."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.model.task_topology import TaskTopology


@dataclass(frozen=True, slots=True)
class RoleRule:
    """The roles of a job that attract or repel one another."""

    job: str
    topology: TaskTopology
