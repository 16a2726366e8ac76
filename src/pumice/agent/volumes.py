"""The volumes of a pod as folders: made when the pod starts, and removed with the pod's folder."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from pumice.agent.environment import MissingError, Referenced, field_value, resource_value
from pumice.agent.job_hosts import SSH, SVC, JobHosts, plugin_volumes
from pumice.agent.shim.records import MountPlan
from pumice.kube.resources import Document

FOLDER = "volumes"


def make_volumes(pod: Document, folder: Path, referenced: Referenced, address: str, hosts: JobHosts) -> dict[str, Path]:
    """Make the folders of all volumes; where each of them is, by name."""
    plugins = plugin_volumes(pod)
    made = {
        volume["name"]: _make_volume(pod, volume, folder / FOLDER / volume["name"], referenced, address)
        for volume in pod["spec"].get("volumes") or ()
        if plugins.get(volume["name"]) != SSH  # processes use the keys of their user
    }
    for name, plugin in plugins.items():
        if plugin == SVC and name in made:
            for file in made[name].iterdir():
                file.write_text(hosts.rewrite(file.read_text()))
    return made


def container_mounts(container: Document, volumes: dict[str, Path], skipped: Collection[str] = ()) -> list[MountPlan]:
    """Where a container sees its volumes. Mount points that are missing are made: as empty folders or files."""
    found: list[MountPlan] = []
    for mount in container.get("volumeMounts") or ():
        if mount["name"] in skipped:
            continue
        source = volumes[mount["name"]] / (mount.get("subPath") or "")
        target = Path(os.path.normpath(mount["mountPath"]))
        read_only = bool(mount.get("readOnly"))
        if mount.get("subPath") and not source.exists():
            source.mkdir(parents=True)
        if not source.resolve().is_relative_to(volumes[mount["name"]].resolve()):
            raise MissingError(f"subPath {mount['subPath']} of volume {mount['name']} leads out of it")
        if source == target and not read_only:
            continue
        if not target.exists():
            if source.is_dir():
                target.mkdir(parents=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.touch()
        found.append({"source": str(source), "target": str(target), "read_only": read_only})
    return found


def _make_volume(pod: Document, volume: Document, folder: Path, referenced: Referenced, address: str) -> Path:
    if host := volume.get("hostPath"):
        return _host_path(volume["name"], Path(os.path.normpath(host["path"])), host.get("type") or "")
    folder.mkdir(parents=True, exist_ok=True)
    if source := volume.get("configMap"):
        _write_items(folder, source, referenced.values("configmap", source["name"], optional=_optional(source)))
    elif source := volume.get("secret"):
        _write_items(folder, source, referenced.values("secret", source["secretName"], optional=_optional(source)))
    elif source := volume.get("downwardAPI"):
        for item in source.get("items") or ():
            if "fieldRef" in item:
                value = field_value(pod, item["fieldRef"]["fieldPath"], address)
            else:
                value = resource_value(pod, pod["spec"]["containers"][0], item["resourceFieldRef"])
            _write_file(folder, item["path"], value.encode(), item.get("mode") or source.get("defaultMode") or 0o644)
    return folder


def _host_path(name: str, path: Path, kind: str) -> Path:
    """The folder or file of the machine, if it is of the kind that the volume wants."""
    if kind == "DirectoryOrCreate":
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch(mode=0o644)
    checks = {"Directory": path.is_dir, "DirectoryOrCreate": path.is_dir, "File": path.is_file}
    checks |= {"FileOrCreate": path.is_file, "Socket": path.is_socket, "BlockDevice": path.is_block_device}
    if not checks.get(kind, path.exists)():
        raise MissingError(f'volume "{name}": hostPath {path} is not {"there" if not kind else f"a {kind}"}')
    return path


def _optional(source: Document) -> bool:
    return bool(source.get("optional"))


def _write_items(folder: Path, source: Document, values: dict[str, bytes]) -> None:
    mode = source.get("defaultMode") or 0o644
    items = source.get("items")
    if items is None:
        items = [{"key": key, "path": key} for key in values]
    for item in items:
        if item["key"] in values:
            _write_file(folder, item["path"], values[item["key"]], item.get("mode") or mode)
        elif not _optional(source):
            raise MissingError(f"references non-existent key: {item['key']}")


def _write_file(folder: Path, name: str, content: bytes, mode: int) -> None:
    path = folder / name
    if ".." in Path(name).parts or Path(name).is_absolute():
        raise MissingError(f"path {name} leads out of the volume")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
