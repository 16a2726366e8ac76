"""Rules about the plugins of a Job: those that others need are added, and arguments must be usable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pumice.admission.cluster_view import ClusterView
from pumice.admission.jobs.job_tasks import tasks_of
from pumice.admission.jobs.plugin_arguments import (
    ARGUMENTS,
    NEEDED_PLUGINS,
    ArgumentError,
    list_arguments,
    parse_arguments,
)
from pumice.admission.request import Object, Refusal, Request, spec_of

PLUGINS: Final = "spec.plugins"
_FIRST_TASK: Final = {"mpi": "master", "ray": "head"}
"""By plugin, the argument that names the task without which no other can work."""


def add_needed_plugins(new: Object, request: Request, world: ClusterView) -> None:
    """Add the plugins that others need; of an update only those that the job has, because plugins may not change."""
    plugins = new["spec"].get("plugins") or {}
    before = spec_of(request.old).get("plugins") or {} if request.old else None
    missing: Object = {
        needed: []
        for name in plugins
        for needed in NEEDED_PLUGINS.get(name, ())
        if needed not in plugins and (before is None or needed in before)
    }
    if missing:
        new["spec"]["plugins"] = {**plugins, **missing}


def arguments_are_usable(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """The value of every argument has the right type."""
    for name, arguments in _plugins(request.object):
        try:
            parse_arguments(name, arguments)
        except ArgumentError as error:
            yield Refusal(str(error), f"{PLUGINS}.{name}[{error.index}]")


def first_task_exists(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """The task that the others connect to is a task of the job."""
    names = {task.get("name") for task in tasks_of(request)}
    for name, arguments in _plugins(request.object):
        if name in _FIRST_TASK and (parsed := _parsed(name, arguments)) is not None:
            task = getattr(parsed, _FIRST_TASK[name])
            if task not in names:
                message = (
                    f"Not found: '{task[:70]}': the job has no such task; name one with --{_FIRST_TASK[name]}=TASK"
                )
                yield Refusal(message, f"{PLUGINS}.{name}")


def plugin_warnings(job: Object) -> Iterator[str]:
    """Warnings for plugins and arguments that are unknown, and for plugins that will do nothing."""
    plugins = spec_of(job).get("plugins") or {}
    for name in sorted(plugins.keys() - ARGUMENTS.keys()):
        yield f"{PLUGINS}.{name}: has no effect; supported plugins: {', '.join(sorted(ARGUMENTS))}"
    for name, arguments in _plugins(job):
        yield from ignored_arguments(name, arguments)
    if "pytorch" in plugins:
        parsed = _parsed("pytorch", list_arguments(plugins["pytorch"]))
        names = {task.get("name") for task in spec_of(job).get("tasks") or ()}
        if parsed is not None and parsed.master not in names:
            yield (
                f"{PLUGINS}.pytorch: has no effect; the job has no task '{parsed.master[:70]}', name one with "
                "--master=TASK"
            )


def ignored_arguments(plugin: str, arguments: tuple[str, ...]) -> Iterator[str]:
    """What is to be said of arguments that a plugin does not have."""
    try:
        for index, why in parse_arguments(plugin, arguments).ignored:
            yield f"{PLUGINS}.{plugin}[{index}]: has no effect; {why}"
    except ArgumentError:
        return  # reported by a rule


def _plugins(job: Object) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, arguments in (spec_of(job).get("plugins") or {}).items():
        if name in ARGUMENTS:
            yield name, list_arguments(arguments)


def _parsed(name: str, arguments: tuple[str, ...]) -> Any | None:
    try:
        return parse_arguments(name, arguments).values
    except ArgumentError:
        return None  # another rule reports it


DEFAULTS = (add_needed_plugins,)
RULES = (arguments_are_usable, first_task_exists)
