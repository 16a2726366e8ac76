"""How pods of one job find each other where all pods share the network of their machine.

Job plugins (``svc``, ``pytorch``, ``tensorflow``, ``mpi``) write host names such as ``train-master-0.train`` into
variables and files, and ports that would be the pod's own in a container. Here such a name becomes the address of the
node that the pod runs on. A port becomes a free one of that node: its agent chooses it before the pod starts, and
publishes it in the annotation ``pumice.dev/ports`` of the pod, where the agents of the other pods read it.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from zlib import crc32

from pumice.agent.environment import MissingError
from pumice.kube.resources import Document

PORTS = "pumice.dev/ports"
JOB_NAME = "volcano.sh/job-name"
MASTER_HOST, MASTER_PORT = "MASTER_ADDR", "MASTER_PORT"
FIRST_PORT, LAST_PORT = 20_000, 32_000
"""Below the ports that the kernel gives to outgoing connections, so that none of them takes one before the pod does."""
SVC, SSH = "svc", "ssh"
_PLACE = re.compile(r"(?<![\w.-])([a-z0-9-]+\.[a-z0-9-]+)(?:([:/ ])(\d+)\b)?(?![\w-]|\.\w)")
"""What may be the host name of a pod, with a port: looked up rather than searched, because a job may have many pods."""
MOST_PORTS = 64
"""Ports of the machine that one pod is given; those of all pods must do for everybody."""
PLUGIN_PORTS = frozenset({"pytorchjob-port", "mpijob-port"})
"""Names of ports that job plugins declare. A process has no port 22 of its own: ``mpi`` uses the machine's ssh."""


def host_name(pod: Document) -> str:
    """The name by which plugins of its job know a pod; empty: it has none."""
    spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
    if JOB_NAME not in labels or not (spec.get("hostname") and spec.get("subdomain")):
        return ""
    return f"{spec['hostname']}.{spec['subdomain']}"


def plugin_volumes(pod: Document) -> dict[str, str]:
    """The volumes that the plugins ``svc`` and ``ssh`` have given a pod: by name, which of them."""
    job = (pod["metadata"].get("labels") or {}).get(JOB_NAME)
    return {f"{job}-svc": SVC, f"{job}-ssh": SSH} if job and host_name(pod) else {}


def published_ports(pod: Document) -> dict[int, int]:
    """The ports of the machine that a pod has instead of those it asks for."""
    try:
        found = json.loads((pod["metadata"].get("annotations") or {}).get(PORTS) or "{}")
        return {int(asked): int(given) for asked, given in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


@dataclass(frozen=True)
class JobHosts:
    """The pods of a job that have a node: the address of each by host name, and its ports."""

    addresses: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    unplaced: frozenset[str] = frozenset()
    """The host names of pods that have no node yet."""
    domain: str = ""
    """What follows the first dot in the host names of this job."""

    def rewrite(self, text: str) -> str:
        """Replace host names by addresses, and ports behind them by those that the pods have."""
        return _PLACE.sub(self._replaced, text) if self.addresses else text

    def rewrite_variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Replace names and ports in values; ``MASTER_PORT`` belongs to the host in ``MASTER_ADDR``."""
        found = {name: self.rewrite(value) for name, value in variables.items()}
        for host, port in master_of(variables):
            if port in self.ports.get(host, {}):
                found[MASTER_PORT] = str(self.ports[host][port])
        return found

    def check_known(self, texts: Sequence[str], variables: Mapping[str, str]) -> None:
        """``MissingError`` if a port is needed of a pod that has no node yet, or has not been given its port yet."""
        if not self.addresses and not self.unplaced:
            return
        needed = [(match[1], int(match[3])) for text in texts for match in _PLACE.finditer(text) if self._names(match)]
        for host, port in [*needed, *master_of(variables)]:
            if host in self.unplaced or (host not in self.addresses and self._is_of_this_job(host)):
                raise MissingError(f"waiting for {host} to be placed")
            if host in self.addresses and port not in self.ports.get(host, {}):
                raise MissingError(f"waiting for the port {port} of {host}")

    def _names(self, match: re.Match[str]) -> bool:
        """Whether a port of a pod of this job is named."""
        return bool(match[3]) and (match[1] in self.addresses or match[1] in self.unplaced)

    def _is_of_this_job(self, host: str) -> bool:
        return bool(self.domain) and host.partition(".")[2] == self.domain

    def _replaced(self, match: re.Match[str]) -> str:
        host, mark, port = match.groups()
        if host not in self.addresses:
            return match[0]
        given = self.ports.get(host, {}).get(int(port), port) if port else ""
        return f"{self.addresses[host]}{mark or ''}{given}"


def master_of(variables: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """The host and port of the master, where the variables name one."""
    host, port = variables.get(MASTER_HOST, ""), variables.get(MASTER_PORT, "")
    if host and port.isdecimal():
        yield host, int(port)


def own_ports(host: str, texts: Sequence[str], variables: Mapping[str, str]) -> list[int]:
    """The ports at which a pod is expected to listen: those that stand behind its own name."""
    pattern = re.compile(rf"(?<![\w.-]){re.escape(host)}[:/ ](\d+)\b")
    found = {int(match[1]) for text in texts for match in pattern.finditer(text)}
    found |= {port for master, port in master_of(variables) if master == host}
    return sorted(found)


def free_port(address: str, seed: str, taken: Collection[int]) -> int:
    """A port of the machine that nobody listens at, and that no other pod has been given."""
    count = LAST_PORT - FIRST_PORT
    start = crc32(seed.encode()) % count
    for step in range(count):
        port = FIRST_PORT + (start + step) % count
        if port in taken:
            continue
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return port
    raise MissingError(f"no port of {FIRST_PORT} to {LAST_PORT} is free")
