"""Validation of containers: names, images, ports, restart rules, and references to other parts of the pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubesim.api.field_errors import FieldProblem, duplicate, forbidden, invalid, required, unsupported
from kubesim.kinds.pods import env, names, probes, security, volumes
from kubesim.kinds.pods.resources import check_resources
from kubesim.registry.registry import Object

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
RESIZE_POLICIES: Final = ("NotRequired", "RestartContainer")
RESTART_ACTIONS: Final = ("Restart", "RestartAllContainers")


def check_containers(spec: Object, field: str) -> Iterator[FieldProblem]:
    """The problems of the containers of a pod."""
    mounted = {volume.get("name", ""): volume for volume in spec.get("volumes", ())}
    seen: set[str] = set()
    ports: set[str] = set()
    found = spec.get("containers")
    if not found:
        yield required(f"{field}.containers")
        return
    for index, container in enumerate(found):
        where = f"{field}.containers[{index}]"
        yield from _check_container(container, where, spec, mounted)
        yield from _check_own_hooks(container, where, spec)
        name = container.get("name", "")
        if name in seen:
            yield duplicate(f"{where}.name", name)
        seen.add(name)
        yield from _check_host_ports(container, where, ports)
    for index, container in enumerate(spec.get("initContainers", ())):
        where = f"{field}.initContainers[{index}]"
        yield from _check_container(container, where, spec, mounted)
        if container.get("restartPolicy") == "Always":
            yield from _check_own_hooks(container, where, spec)
        else:
            for hook in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
                if hook in container:
                    yield forbidden(
                        f"{where}.{hook}", "may not be set for init containers without restartPolicy=Always"
                    )
        name = container.get("name", "")
        if name and name in seen:
            yield duplicate(f"{where}.name", name)
        seen.add(name)


def _check_container(container: Object, field: str, spec: Object, mounted: dict[str, Object]) -> Iterator[FieldProblem]:
    name = container.get("name", "")
    if not name:
        yield required(f"{field}.name")
    else:
        yield from names.check_label(name, f"{field}.name")
    image = container.get("image", "")
    if not image:
        yield required(f"{field}.image")
    elif image != image.strip():
        yield invalid(f"{field}.image", image, "must not have leading or trailing whitespace")
    if container["terminationMessagePolicy"] not in MESSAGE_POLICIES:
        yield unsupported(f"{field}.terminationMessagePolicy", container["terminationMessagePolicy"], MESSAGE_POLICIES)
    if container["imagePullPolicy"] not in PULL_POLICIES:
        yield unsupported(f"{field}.imagePullPolicy", container["imagePullPolicy"], PULL_POLICIES)
    if "ports" in container:
        yield from _check_ports(container["ports"], f"{field}.ports", host_network=bool(spec.get("hostNetwork")))
    if "env" in container or "envFrom" in container:
        yield from env.check_env(container, field)
    if "volumeMounts" in container or "volumeDevices" in container:
        yield from volumes.check_mounts(container, field, mounted)
    if container["resources"]:
        yield from check_resources(container["resources"], f"{field}.resources")
    for policy in container.get("resizePolicy", ()):
        yield from names.check_choice(policy.get("resourceName", ""), f"{field}.resizePolicy", ("cpu", "memory"))
        yield from names.check_choice(policy.get("restartPolicy", ""), f"{field}.resizePolicy", RESIZE_POLICIES)
    if "restartPolicy" in container or "restartPolicyRules" in container:
        yield from _check_restarts(container, field)
    if container.get("securityContext"):
        yield from security.check_container_security(container["securityContext"], f"{field}.securityContext")


def _check_own_hooks(container: Object, field: str, spec: Object) -> Iterator[FieldProblem]:
    if "lifecycle" in container:
        grace = spec.get("terminationGracePeriodSeconds", 0)
        yield from probes.check_lifecycle(container["lifecycle"], f"{field}.lifecycle", grace)
    if "livenessProbe" in container:
        yield from probes.check_probe(container["livenessProbe"], f"{field}.livenessProbe")
    if "readinessProbe" in container:
        yield from probes.check_probe(container["readinessProbe"], f"{field}.readinessProbe", once=False, grace=False)
    if "startupProbe" in container:
        yield from probes.check_probe(container["startupProbe"], f"{field}.startupProbe")


def _check_ports(ports: list[Object], field: str, *, host_network: bool) -> Iterator[FieldProblem]:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{field}[{index}]"
        name = port.get("name")
        if name:
            yield from names.check_port_name(name, f"{where}.name")
            if name in seen:
                yield duplicate(f"{where}.name", name)
            seen.add(name)
        number = port.get("containerPort", 0)
        if not number:
            yield required(f"{where}.containerPort")
        else:
            yield from names.check_port(number, f"{where}.containerPort")
        if port.get("hostPort"):
            yield from names.check_port(port["hostPort"], f"{where}.hostPort")
            if host_network and port["hostPort"] != number:
                yield invalid(
                    f"{where}.hostPort", port["hostPort"], "must match `containerPort` when `hostNetwork` is true"
                )
        if port["protocol"] not in PROTOCOLS:
            yield unsupported(f"{where}.protocol", port["protocol"], PROTOCOLS)


def _check_host_ports(container: Object, field: str, seen: set[str]) -> Iterator[FieldProblem]:
    for index, port in enumerate(container.get("ports", ())):
        if port.get("hostPort"):
            taken = f"{port['protocol']}/{port.get('hostIP', '')}/{port['hostPort']}"
            if taken in seen:
                yield duplicate(f"{field}.ports[{index}].hostPort", taken)
            seen.add(taken)


def _check_restarts(container: Object, field: str) -> Iterator[FieldProblem]:
    if "restartPolicy" in container:
        yield from names.check_choice(container["restartPolicy"], f"{field}.restartPolicy", RESTART_POLICIES)
    elif container["restartPolicyRules"]:
        yield required(f"{field}.restartPolicy", "must specify restartPolicy when restart rules are used")
    for index, rule in enumerate(container.get("restartPolicyRules", ())):
        where = f"{field}.restartPolicyRules[{index}]"
        yield from names.check_choice(rule.get("action", ""), f"{where}.action", RESTART_ACTIONS)
        if "exitCodes" not in rule:
            yield required(f"{where}.exitCodes", "must be specified")
