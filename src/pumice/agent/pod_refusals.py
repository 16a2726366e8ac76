"""What a pod asks for that a process on this machine cannot have. Such a pod is refused, never run without it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pumice.agent.job_hosts import PLUGIN_PORTS, plugin_volumes
from pumice.kube.resources import Document

VOLUMES = ("emptyDir", "hostPath", "configMap", "secret", "downwardAPI")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
UNSERVED = {
    "ephemeralContainers": "no container can be added to processes",
    "hostAliases": "processes use the machine's own /etc/hosts",
    "dnsConfig": "processes use the machine's own resolver",
    "runtimeClassName": "there is no container runtime",
    "resourceClaims": "dynamic resource allocation is not supported",
    "resources": "set resources of the containers",
    "readinessGates": "only exec probes decide about readiness",
}
"""Fields of a pod's spec that are refused, each with the reason."""
CONTAINER_UNSERVED = {
    "lifecycle": "hooks are not supported",
    "stdin": "processes have no standard input",
    "tty": "processes have no terminal",
    "volumeDevices": "block devices are not supported",
    "resizePolicy": "resources of a process cannot be changed",
}
RESERVED_PATHS = ("/", "/proc", "/sys", "/dev")
HARMLESS_SECURITY = {
    "privileged": False,
    "readOnlyRootFilesystem": False,
    "allowPrivilegeEscalation": True,
    "runAsNonRoot": False,
}
"""Fields of a security context with the value that asks for nothing."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What this agent can do for pods."""

    mounts: bool
    """Whether a process can see folders under other paths."""
    user: int = -1
    """The user of the processes; -1: that of the agent."""
    shared: bool = False
    """Whether processes run as their users, who cannot get more rights than they have."""


def refusals(pod: Document, abilities: Abilities) -> list[str]:
    """Why a pod cannot run here: a field and a reason for each. Empty: it can."""
    spec = pod["spec"]
    user = os.getuid() if abilities.user < 0 else abilities.user
    found = [f"spec.{name}: {reason}" for name, reason in UNSERVED.items() if spec.get(name)]
    found += _security(spec.get("securityContext") or {}, "spec.securityContext", user, abilities)
    if spec.get("hostUsers") is False:
        found.append("spec.hostUsers: processes share the users of the machine")
    for at, volume in enumerate(spec.get("volumes") or ()):
        kind = next((key for key in volume if key != "name"), "emptyDir")
        if kind not in VOLUMES:
            found.append(f"spec.volumes[{at}].{kind}: supported are {', '.join(VOLUMES)}")
    for part in ("initContainers", "containers"):
        for at, container in enumerate(spec.get(part) or ()):
            found += _container(container, f"spec.{part}[{at}]", spec, abilities, user)
            found += _mounts(container, f"spec.{part}[{at}]", spec, abilities, plugin_volumes(pod))
    return found


def _container(container: Document, where: str, spec: Document, abilities: Abilities, user: int) -> Iterator[str]:
    if not container.get("command"):
        yield f"{where}.command: required, because images are not pulled and their entrypoints are not known"
    for name, reason in CONTAINER_UNSERVED.items():
        if container.get(name):
            yield f"{where}.{name}: {reason}"
    ports = [port for port in container.get("ports") or () if port.get("name") not in PLUGIN_PORTS]
    if ports and not spec.get("hostNetwork"):
        yield f"{where}.ports: a process has no ports of its own; set spec.hostNetwork to use those of the machine"
    if where.startswith("spec.initContainers") and container.get("restartPolicy"):
        yield f"{where}.restartPolicy: init containers that keep running are not supported"
    for name in PROBES:
        if container.get(name) and "exec" not in container[name]:
            yield f"{where}.{name}: only exec probes are supported"
    yield from _security(container.get("securityContext") or {}, f"{where}.securityContext", user, abilities)


def _mounts(
    container: Document, where: str, spec: Document, abilities: Abilities, plugins: Collection[str]
) -> Iterator[str]:
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
    for at, mount in enumerate(container.get("volumeMounts") or ()):
        target = os.path.normpath(mount["mountPath"])
        if target in RESERVED_PATHS or target.startswith(("/proc/", "/sys/", "/dev/")) or not target.startswith("/"):
            yield f"{where}.volumeMounts[{at}].mountPath: {target} cannot be replaced for a process"
        if mount.get("subPathExpr") or ".." in (mount.get("subPath") or "").split("/"):
            yield f"{where}.volumeMounts[{at}].subPath: must be a path below the volume, without variables"
        source = (volumes.get(mount["name"], {}).get("hostPath") or {}).get("path")
        in_place = source is not None and os.path.normpath(source) == target and not mount.get("readOnly")
        if not abilities.mounts and not in_place and mount["name"] not in plugins:
            yield (
                f"{where}.volumeMounts[{at}]: the agent may not mount; only a hostPath at its own path, "
                "not read only, is possible"
            )


def _security(context: Document, where: str, user: int, abilities: Abilities) -> Iterator[str]:
    for name, value in context.items():
        if name == "runAsUser" and value == user:
            continue
        if name == "runAsNonRoot" and user != 0:
            continue
        if name == "allowPrivilegeEscalation" and abilities.shared:
            continue
        if HARMLESS_SECURITY.get(name) == value or value in (None, {}, []):
            continue
        whose = "the owner of the namespace" if abilities.shared else "the user of the agent"
        yield f"{where}.{name}: processes run as {whose} ({user}), with what that user may do"
