"""The arguments of Volcano's job plugins: names, types and defaults, and the parser for them.

A job gives a plugin a list of command-line flags, which Volcano reads with Go's package ``flag``: ``-name=value``,
``--name=value``, ``--name value``, and for booleans ``--name``. Volcano logs an error and goes on with the flags before
it. Here admission rejects a value that cannot be used, because the pods would not find each other, and warns of flags
that a plugin does not have: other versions of Volcano may have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields
from functools import lru_cache
from typing import Any, Final

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
HIGHEST_PORT: Final = 65535


class ArgumentError(ValueError):
    """An argument that a plugin cannot use."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index
        """Its place in the list."""


def _port(default: int, flag: str = "") -> Any:
    return field(default=default, metadata={"flag": flag, "port": True})


def _named(flag: str, default: Any) -> Any:
    return field(default=default, metadata={"flag": flag})


@dataclass(frozen=True, slots=True)
class NoArguments:
    """``env`` has none."""


@dataclass(frozen=True, slots=True)
class SvcArguments:
    """Arguments of ``svc``."""

    publish_not_ready_addresses: bool = False
    disable_network_policy: bool = False
    inject_hosts_env: bool = True


@dataclass(frozen=True, slots=True)
class SshArguments:
    """Arguments of ``ssh``."""

    ssh_key_file_path: str = ""
    """Where containers find the keys; empty: ``/root/.ssh``, or ``/etc/volcano/.ssh`` with ``no_root``."""
    ssh_private_key: str = ""
    ssh_public_key: str = ""
    ssh_port: int = _port(22)
    no_root: bool = False
    """Of early versions of Volcano, and of manifests that were written for them."""


@dataclass(frozen=True, slots=True)
class PytorchArguments:
    """Arguments of ``pytorch``."""

    master: str = "master"
    worker: str = "worker"
    port: int = _port(23456)
    wait_master_enabled: bool = False
    wait_master_timeout: int = 300
    wait_master_image: str = "busybox:1.36.1"


@dataclass(frozen=True, slots=True)
class TensorflowArguments:
    """Arguments of ``tensorflow``."""

    ps: str = "ps"
    worker: str = "worker"
    chief: str = "chief"
    evaluator: str = "evaluator"
    port: int = _port(2222)


@dataclass(frozen=True, slots=True)
class MpiArguments:
    """Arguments of ``mpi``."""

    master: str = "master"
    worker: str = "worker"
    port: int = _port(22)


@dataclass(frozen=True, slots=True)
class RayArguments:
    """Arguments of ``ray``."""

    head: str = "head"
    head_container: str = _named("headContainer", "head")
    worker: str = "worker"
    worker_container: str = _named("workerContainer", "worker")
    port: int = _port(6379)
    dashboard_port: int = _port(8265, "dashboardPort")
    client_port: int = _port(10001, "clientPort")


@dataclass(frozen=True, slots=True)
class HcclrankArguments:
    """Arguments of ``hcclrank``."""

    master: str = "master"
    worker: str = "worker"


ARGUMENTS: Final[dict[str, type[Any]]] = {
    "env": NoArguments,
    "svc": SvcArguments,
    "ssh": SshArguments,
    "pytorch": PytorchArguments,
    "tensorflow": TensorflowArguments,
    "mpi": MpiArguments,
    "ray": RayArguments,
    "hcclrank": HcclrankArguments,
}
"""The job plugins, with their arguments."""

NEEDED_PLUGINS: Final[dict[str, tuple[str, ...]]] = {
    "pytorch": ("svc",),
    "tensorflow": ("svc",),
    "mpi": ("svc", "ssh"),
    "ray": ("svc",),
}
"""Plugins that a plugin does not work without: admission adds them."""


@dataclass(frozen=True, slots=True)
class ParsedArguments:
    """The arguments of a plugin, and those that it does not have."""

    values: Any
    ignored: tuple[tuple[int, str], ...] = ()
    """The place in the list of each argument that has no effect, and why."""


@lru_cache(maxsize=512)
def parse_arguments(plugin: str, arguments: tuple[str, ...]) -> ParsedArguments:
    """Parse the arguments of a plugin in ``ARGUMENTS``; raises ``ArgumentError``."""
    flags = plugin_flags(plugin)
    found: dict[str, object] = {}
    ignored: list[tuple[int, str]] = []
    index = 0
    while index < len(arguments):
        argument = arguments[index]
        name, equals, text = argument.removeprefix("-").removeprefix("-").partition("=")
        flag = flags.get(name) if argument.startswith("-") else None
        if flag is None:
            known = ", ".join(f"--{each}" for each in flags) or "none"
            ignored.append((index, f"{plugin} has no argument {argument[:70]!r}; supported arguments: {known}"))
            index += 1
            continue
        if not equals and isinstance(flag.default, bool):
            text = "true"
        elif not equals:
            index += 1
            if index == len(arguments):
                raise ArgumentError(index - 1, f"Invalid value: {argument[:70]!r}: needs a value")
            text = arguments[index]
        found[flag.name] = _value(flag, text, index)
        index += 1
    return ParsedArguments(ARGUMENTS[plugin](**found), tuple(ignored))


def plugin_flags(plugin: str) -> dict[str, Field[Any]]:
    """The fields of a plugin's arguments by the names of their flags."""
    return {each.metadata.get("flag") or each.name.replace("_", "-"): each for each in fields(ARGUMENTS[plugin])}


def _value(flag: Field[Any], text: str, index: int) -> object:
    if isinstance(flag.default, bool):
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise ArgumentError(index, f"Invalid value: {text[:70]!r}: must be true or false")
    if isinstance(flag.default, int):
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise ArgumentError(index, f"Invalid value: {text[:70]!r}: must be a number")
        if flag.metadata.get("port") and not 1 <= int(text) <= HIGHEST_PORT:
            raise ArgumentError(index, f"Invalid value: {text}: must be a port, 1 to {HIGHEST_PORT}")
        return int(text)
    return text


def list_arguments(given: Sequence[object] | None) -> tuple[str, ...]:
    """The arguments as a job's spec has them; null is no arguments."""
    return tuple(str(argument) for argument in given or ())
