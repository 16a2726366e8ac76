"""Defaults and validation of volumes and volume mounts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kubesim.api.field_errors import FieldErrorType, FieldProblem, duplicate, forbidden, invalid, required
from kubesim.kinds.pods import env, names
from kubesim.kinds.pods.resources import canonical_amount
from kubesim.registry.registry import Object

MODE: Final = 0o644
TOKEN_SECONDS: Final = 3600
LARGEST_MODE: Final = 0o777
SHORTEST_TOKEN: Final = 600

HOST_PATHS: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
IN_VOLUMES: Final = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")


# ---- defaults ---------------------------------------------------------------------------------------------


def complete_volume(volume: Object, kind: str = "Pod") -> None:
    """Fill in what a volume leaves out. One without any source is an empty directory."""
    source = next((key for key in volume if key != "name"), None)
    if source is None:
        volume["emptyDir"] = {}
    elif source in {"configMap", "secret", "downwardAPI", "projected"}:
        found = volume[source]
        found.setdefault("defaultMode", MODE)
        for item in _downward_items(source, found):
            complete_reference(item, kind)
        for projection in found.get("sources", ()):
            if "serviceAccountToken" in projection:
                projection["serviceAccountToken"].setdefault("expirationSeconds", TOKEN_SECONDS)
    elif source == "hostPath":
        volume[source].setdefault("type", "")
    elif source == "emptyDir" and "sizeLimit" in volume[source]:
        volume[source]["sizeLimit"] = canonical_amount(volume[source]["sizeLimit"], kind)
    elif source == "image" and not volume[source].get("pullPolicy"):
        tag = volume[source].get("reference", "").rpartition("/")[2].partition(":")[2]
        volume[source]["pullPolicy"] = "Always" if tag in {"", "latest"} else "IfNotPresent"


def complete_reference(found: Object, kind: str = "Pod") -> None:
    """Fill in a reference to a field of the pod or to what a container may use."""
    if "fieldRef" in found and not found["fieldRef"].get("apiVersion"):
        found["fieldRef"]["apiVersion"] = "v1"
    reference = found.get("resourceFieldRef")
    if reference:
        reference["divisor"] = canonical_amount(reference.get("divisor", "0"), kind)


def _downward_items(source: str, found: Object) -> Iterator[Object]:
    if source == "downwardAPI":
        yield from found.get("items", ())
    for projection in found.get("sources", ()):
        yield from projection.get("downwardAPI", {}).get("items", ())


# ---- checks -----------------------------------------------------------------------------------------------


def check_volumes(volumes: list[Object], field: str, *, account: bool) -> Iterator[FieldProblem]:
    """The problems of the volumes of a pod."""
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        where = f"{field}[{index}]"
        name = volume.get("name", "")
        sources = [key for key in volume if key != "name"]
        for source in sources[1:]:
            yield forbidden(f"{where}.{source}", "may not specify more than 1 volume type")
        for source in sources[:1]:
            check = _CHECKS.get(source)
            if check is not None:
                yield from check(volume[source], f"{where}.{source}")
        if "projected" in volume and not account:
            for at, projection in enumerate(volume["projected"].get("sources", ())):
                if "serviceAccountToken" in projection:
                    yield forbidden(
                        f"{where}.projected.sources[{at}].serviceAccountToken",
                        "must not be specified when serviceAccountName is not set",
                    )
        if not name:
            yield required(f"{where}.name")
        else:
            yield from names.check_label(name, f"{where}.name")
        if name in seen:
            yield duplicate(f"{where}.name", name)
        seen.add(name)


def _check_empty_dir(source: Object, field: str) -> Iterator[FieldProblem]:
    if str(source.get("sizeLimit", "")).startswith("-"):
        yield forbidden(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _check_config_map(source: Object, field: str) -> Iterator[FieldProblem]:
    yield from names.check_present(source, field, "name")
    yield from _check_keys(source, field)


def _check_secret(source: Object, field: str) -> Iterator[FieldProblem]:
    yield from names.check_present(source, field, "secretName")
    yield from _check_keys(source, field)


def _check_keys(source: Object, field: str) -> Iterator[FieldProblem]:
    yield from _check_mode(source.get("defaultMode"), f"{field}.defaultMode")
    for index, item in enumerate(source.get("items", ())):
        where = f"{field}.items[{index}]"
        yield from names.check_present(item, where, "key", "path")
        yield from _check_target(item.get("path", ""), f"{where}.path")
        yield from _check_mode(item.get("mode"), f"{where}.mode")


def _check_target(path: str, field: str) -> Iterator[FieldProblem]:
    faults = list(names.check_relative(path, field))
    yield from faults
    if not faults and path.startswith(".."):
        yield invalid(field, path, "must not start with '..'")


def _check_mode(mode: int | None, field: str) -> Iterator[FieldProblem]:
    if mode is not None and not 0 <= mode <= LARGEST_MODE:
        yield invalid(field, mode, "must be a number between 0 and 0777 (octal), both inclusive")


def _check_host_path(source: Object, field: str) -> Iterator[FieldProblem]:
    yield from names.check_present(source, field, "path")
    yield from names.check_no_backsteps(source.get("path", ""), f"{field}.path")
    yield from names.check_choice(source.get("type", ""), f"{field}.type", HOST_PATHS)


def _check_claim(source: Object, field: str) -> Iterator[FieldProblem]:
    yield from names.check_present(source, field, "claimName")


def _check_nfs(source: Object, field: str) -> Iterator[FieldProblem]:
    yield from names.check_present(source, field, "server", "path")
    if not source.get("path", "").startswith("/"):
        yield invalid(f"{field}.path", source.get("path", ""), "must be an absolute path")


def _check_csi(source: Object, field: str) -> Iterator[FieldProblem]:
    yield from names.check_present(source, field, "driver")


def _check_image(source: Object, field: str) -> Iterator[FieldProblem]:
    yield from names.check_present(source, field, "reference")
    yield from names.check_choice(source.get("pullPolicy", "Always"), f"{field}.pullPolicy", PULL_POLICIES)


def _check_ephemeral(source: Object, field: str) -> Iterator[FieldProblem]:
    if not source.get("volumeClaimTemplate"):
        yield required(f"{field}.volumeClaimTemplate")


def _check_downward(source: Object, field: str) -> Iterator[FieldProblem]:
    yield from _check_mode(source.get("defaultMode"), f"{field}.defaultMode")
    for item in source.get("items", ()):
        yield from names.check_present(item, field, "path")
        yield from _check_target(item.get("path", ""), f"{field}.path")
        yield from _check_mode(item.get("mode"), f"{field}.mode")
        if "fieldRef" in item:
            yield from env.check_field(item["fieldRef"], f"{field}.fieldRef", IN_VOLUMES)
            if "resourceFieldRef" in item:
                yield invalid(field, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
        elif "resourceFieldRef" in item:
            yield from env.check_resource(item["resourceFieldRef"], f"{field}.resourceFieldRef", volume=True)
        else:
            yield required(field, "one of fieldRef and resourceFieldRef is required")


def _check_projected(source: Object, field: str) -> Iterator[FieldProblem]:
    yield from _check_mode(source.get("defaultMode"), f"{field}.defaultMode")
    paths: set[str] = set()
    for index, projection in enumerate(source.get("sources", ())):
        where = f"{field}.sources[{index}]"
        if len(projection) > 1:
            yield forbidden(where, "may not specify more than 1 volume type per source")
        for kind in ("secret", "configMap"):
            if kind in projection:
                yield from _check_config_map(projection[kind], f"{where}.{kind}")
                for item in projection[kind].get("items", ()):
                    if item.get("path") in paths:
                        yield invalid(field, projection[kind].get("name", ""), "conflicting duplicate paths")
                    paths.add(item.get("path", ""))
        if "downwardAPI" in projection:
            yield from _check_downward(projection["downwardAPI"], f"{where}.downwardAPI")
        if "serviceAccountToken" in projection:
            token = projection["serviceAccountToken"]
            if token.get("expirationSeconds", TOKEN_SECONDS) < SHORTEST_TOKEN:
                yield invalid(
                    f"{where}.serviceAccountToken.expirationSeconds",
                    token["expirationSeconds"],
                    "may not specify a duration less than 10 minutes",
                )
            yield from names.check_present(token, field, "path")


_CHECKS: Final[dict[str, Callable[[Any, str], Iterator[FieldProblem]]]] = {
    "emptyDir": _check_empty_dir,
    "configMap": _check_config_map,
    "secret": _check_secret,
    "hostPath": _check_host_path,
    "persistentVolumeClaim": _check_claim,
    "nfs": _check_nfs,
    "csi": _check_csi,
    "image": _check_image,
    "ephemeral": _check_ephemeral,
    "downwardAPI": _check_downward,
    "projected": _check_projected,
}


# ---- mounts -----------------------------------------------------------------------------------------------


def check_mounts(container: Object, field: str, volumes: dict[str, Object]) -> Iterator[FieldProblem]:
    """The problems of the volumes a container mounts, of those the pod has."""
    paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        where = f"{field}.volumeMounts[{index}]"
        yield from _check_volume(mount, where, volumes)
        path = mount.get("mountPath", "")
        if not path:
            yield required(f"{where}.mountPath")
        if path in paths:
            yield invalid(f"{where}.mountPath", path, "must be unique")
        paths.add(path)
        yield from _check_mount(mount, f"{field}.volumeMounts", where, container)
    for index, device in enumerate(container.get("volumeDevices", ())):
        where = f"{field}.volumeDevices[{index}]"
        yield from _check_volume(device, where, volumes)
        volume = volumes.get(device.get("name", ""), {})
        if volume and not volume.keys() & {"persistentVolumeClaim", "ephemeral"}:
            yield invalid(
                f"{where}.name",
                device["name"],
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            )
        yield from names.check_present(device, where, "devicePath")
        if device.get("devicePath") in paths:
            detail = "must not already exist as a path in volumeMounts"
            yield invalid(f"{where}.devicePath", device["devicePath"], detail)


def _check_volume(mount: Object, where: str, volumes: dict[str, Object]) -> Iterator[FieldProblem]:
    name = mount.get("name", "")
    if not name:
        yield required(f"{where}.name")
    if name not in volumes:
        yield FieldProblem(f"{where}.name", FieldErrorType.NOT_FOUND, "", name)


def _check_mount(mount: Object, field: str, where: str, container: Object) -> Iterator[FieldProblem]:
    """kube-apiserver leaves the index out of some of these fields."""
    if mount.get("subPath"):
        yield from names.check_relative(mount["subPath"], f"{field}.subPath")
    if mount.get("subPathExpr"):
        if mount.get("subPath"):
            yield invalid(
                f"{where}.subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive"
            )
        yield from names.check_relative(mount["subPathExpr"], f"{field}.subPathExpr")
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        yield from names.check_choice(propagation, f"{field}.mountPropagation", PROPAGATIONS)
        if propagation == "Bidirectional" and not container.get("securityContext", {}).get("privileged"):
            yield forbidden(
                f"{field}.mountPropagation",
                "Bidirectional mount propagation is available only to privileged containers",
            )
    recursive = mount.get("recursiveReadOnly", "Disabled")
    if recursive in {"Enabled", "IfPossible"}:
        if not mount.get("readOnly"):
            yield forbidden(f"{field}.recursiveReadOnly", "may only be specified when readOnly is true")
    else:
        yield from names.check_choice(recursive, f"{field}.recursiveReadOnly", ("Disabled", "Enabled", "IfPossible"))
