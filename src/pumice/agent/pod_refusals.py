"""What a pod asks for that a process on this machine cannot have. Such a pod is refused, never run without it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pumice.agent.environment import NUL
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
    "setHostnameAsFQDN": "processes have the host name of the machine",
    "hostnameOverride": "processes have the host name of the machine",
    "automountServiceAccountToken": "no token of a service account is mounted",
}
"""Fields of a pod's spec that are refused, each with the reason."""
CONTAINER_UNSERVED = {
    "lifecycle": "hooks are not supported",
    "stdin": "processes have no standard input",
    "tty": "processes have no terminal",
    "volumeDevices": "block devices are not supported",
    "resizePolicy": "resources of a process cannot be changed",
    "restartPolicyRules": "set spec.restartPolicy",
}
END_MESSAGE = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
"""Where a container leaves a message at its end, with the values that the API sets by itself."""
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
    if (spec.get("os") or {}).get("name", "linux") != "linux":
        found.append("spec.os: the machine runs Linux")
    for at, volume in enumerate(spec.get("volumes") or ()):
        kind = next((key for key in volume if key != "name"), "emptyDir")
        if kind not in VOLUMES:
            found.append(f"spec.volumes[{at}].{kind}: supported are {', '.join(VOLUMES)}")
        found += _empty_dir(volume.get("emptyDir") or {}, f"spec.volumes[{at}].emptyDir")
    for part in ("initContainers", "containers"):
        for at, container in enumerate(spec.get(part) or ()):
            found += _container(container, f"spec.{part}[{at}]", spec, abilities, user)
            found += _mounts(container, f"spec.{part}[{at}]", spec, abilities, plugin_volumes(pod))
    return found


def _empty_dir(source: Document, where: str) -> Iterator[str]:
    if source.get("medium"):
        yield f"{where}.medium: volumes are folders on the disk of the machine"
    if source.get("sizeLimit"):
        yield f"{where}.sizeLimit: the size of folders is not limited"


def _container(container: Document, where: str, spec: Document, abilities: Abilities, user: int) -> Iterator[str]:
    if not container.get("command"):
        yield f"{where}.command: required, because images are not pulled and their entrypoints are not known"
    for name, reason in CONTAINER_UNSERVED.items():
        if container.get(name):
            yield f"{where}.{name}: {reason}"
    ports = [port for port in container.get("ports") or () if port.get("name") not in PLUGIN_PORTS]
    if ports and not spec.get("hostNetwork"):
        yield f"{where}.ports: a process has no ports of its own; set spec.hostNetwork to use those of the machine"
    if container.get("restartPolicy"):
        what = (
            "init containers that keep running are" if where.startswith("spec.initContainers") else "own policies are"
        )
        yield f"{where}.restartPolicy: {what} not supported"
    for name in PROBES:
        if container.get(name) and "exec" not in container[name]:
            yield f"{where}.{name}: only exec probes are supported"
    for name, usual in END_MESSAGE.items():
        if container.get(name, usual) != usual:
            yield f"{where}.{name}: messages at the end are not read; see the log"
    words = {
        "command": container.get("command"),
        "args": container.get("args"),
        "workingDir": [container.get("workingDir")],
    }
    words["env"] = [entry.get("value") for entry in container.get("env") or ()]
    for name, texts in words.items():
        if any(NUL in (text or "") for text in texts or ()):
            yield f"{where}.{name}: a process cannot have the character NUL in it"
    resources = container.get("resources") or {}
    if "ephemeral-storage" in (resources.get("limits") or {}):
        yield f"{where}.resources.limits[ephemeral-storage]: the use of disks is not limited"
    if resources.get("claims"):
        yield f"{where}.resources.claims: {UNSERVED['resourceClaims']}"
    for at, entry in enumerate(container.get("env") or ()):
        if "fileKeyRef" in (entry.get("valueFrom") or {}):
            yield f"{where}.env[{at}].valueFrom.fileKeyRef: files with variables are not supported"
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
        if mount.get("mountPropagation") not in {None, "None"}:
            yield f"{where}.volumeMounts[{at}].mountPropagation: mounts are the container's own"
        if mount.get("recursiveReadOnly") == "Enabled":
            yield f"{where}.volumeMounts[{at}].recursiveReadOnly: what is mounted below the volume stays writable"
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
