"""The environment of a container: values, fields of the pod, ConfigMaps and Secrets, and references to variables."""

from __future__ import annotations

import os
import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field

from kubebase.quantity import NANOS, parse
from pumice.agent.shim.process_table import CONTAINER_VARIABLE, POD_VARIABLE
from pumice.agent.shim.records import Identity
from pumice.kube.resources import Document

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""Variables of the agent that processes get as well: what an image would have set."""
LOGIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEVICE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
NUL = "\0"
"""Ends words and variables of a process, so that none can contain it."""
_REFERENCE = re.compile(r"\$(\$|\([A-Za-z0-9_.-]+\))")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]$")


class MissingError(Exception):
    """Something that a container refers to does not exist (yet)."""


@dataclass(frozen=True, slots=True)
class Referenced:
    """What a pod refers to: objects by name (None: there is no such object), and what the node has."""

    config_maps: dict[str, Document | None] = field(default_factory=dict)
    secrets: dict[str, Document | None] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)

    def values(self, kind: str, name: str, *, optional: bool) -> dict[str, bytes]:
        """The contents of a ConfigMap or Secret."""
        found = (self.config_maps if kind == "configmap" else self.secrets).get(name)
        if found is None:
            if optional:
                return {}
            raise MissingError(f'{kind} "{name}" not found')
        encoded = found.get("binaryData") if kind == "configmap" else found.get("data")
        plain = (found.get("data") if kind == "configmap" else None) or {}
        return {key: value.encode() for key, value in plain.items()} | {
            key: b64decode(value) for key, value in (encoded or {}).items()
        }


def container_environment(
    pod: Document,
    container: Document,
    referenced: Referenced,
    devices: list[str],
    address: str,
    identity: Identity | None = None,
) -> dict[str, str]:
    """All variables of a container. With an identity none of the agent's own, but those of a fresh login."""
    found = {name: os.environ[name] for name in INHERITED if name in os.environ}
    if identity is not None:
        found = {"PATH": LOGIN_PATH, "HOME": identity["home"], "SHELL": identity["shell"]}
        found |= dict.fromkeys(("USER", "LOGNAME"), identity["name"])
    found["HOSTNAME"] = pod["spec"].get("hostname") or pod["metadata"]["name"]
    for source in container.get("envFrom") or ():
        for kind, key in (("configmap", "configMapRef"), ("secret", "secretRef")):
            if ref := source.get(key):
                values = referenced.values(kind, ref["name"], optional=bool(ref.get("optional")))
                prefix, where = source.get("prefix", ""), f'{kind} "{ref["name"]}"'
                found |= {prefix + name: _text(value, name, where) for name, value in values.items()}
    for entry in container.get("env") or ():
        if "valueFrom" in entry:
            value = _value_from(pod, container, entry["valueFrom"], referenced, address)
            if value is None:
                continue
        else:
            value = expand(entry.get("value") or "", found)
        found[entry["name"]] = value
    found |= dict.fromkeys(DEVICE_VARIABLES, ",".join(devices))
    return found | {POD_VARIABLE: pod["metadata"]["uid"], CONTAINER_VARIABLE: container["name"]}


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by the variable; ``$$`` is a dollar sign, unknown names stay as they are."""

    def replaced(match: re.Match[str]) -> str:
        inner = match[1]
        return "$" if inner == "$" else variables.get(inner[1:-1], match[0])

    return _REFERENCE.sub(replaced, text)


def _value_from(
    pod: Document, container: Document, source: Document, referenced: Referenced, address: str
) -> str | None:
    if ref := source.get("fieldRef"):
        return field_value(pod, ref["fieldPath"], address)
    if ref := source.get("resourceFieldRef"):
        return resource_value(pod, container, ref, referenced)
    for kind, key in (("configmap", "configMapKeyRef"), ("secret", "secretKeyRef")):
        if ref := source.get(key):
            optional = bool(ref.get("optional"))
            values = referenced.values(kind, ref["name"], optional=optional)
            if ref["key"] in values:
                return _text(values[ref["key"]], ref["key"], f'{kind} "{ref["name"]}"')
            if optional:
                return None
            raise MissingError(f"couldn't find key {ref['key']} in {kind} {pod['metadata']['namespace']}/{ref['name']}")
    raise MissingError("valueFrom names no source")


def _text(value: bytes, key: str, where: str) -> str:
    """A value as a variable can have it."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = NUL
    if NUL in text:
        raise MissingError(f"key {key} in {where} is not text (UTF-8, without NUL), which a variable must be")
    return text


def field_value(pod: Document, path: str, address: str) -> str:
    """A field of the pod, as the downward API names it."""
    about, spec = pod["metadata"], pod["spec"]
    if keyed := _KEYED.match(path):
        return str((about.get(keyed[1]) or {}).get(keyed[2], ""))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(about[path.removeprefix("metadata.")])
        case "metadata.labels" | "metadata.annotations":
            pairs = about.get(path.removeprefix("metadata.")) or {}
            return "\n".join(f'{key}="{value}"' for key, value in sorted(pairs.items()))
        case "spec.nodeName" | "spec.serviceAccountName":
            return str(spec.get(path.removeprefix("spec."), ""))
        case "status.hostIP" | "status.podIP" | "status.hostIPs" | "status.podIPs":
            return address
    raise MissingError(f"field {path} is not available")


def resource_value(pod: Document, container: Document, ref: Document, referenced: Referenced) -> str:
    """A request or limit of a container, in units of the divisor, rounded up. Without a limit, what the node has."""
    named = ref.get("containerName")
    everything = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())]
    owner = next((each for each in everything if each["name"] == named), container) if named else container
    kind, _, name = ref["resource"].partition(".")
    amounts = (owner.get("resources") or {}).get(kind) or {}
    divisor = parse(ref.get("divisor") or "1").nano or NANOS
    usual = referenced.allocatable.get(name, "0") if kind == "limits" else "0"
    return str(-(-parse(amounts.get(name, usual)).nano // divisor))
