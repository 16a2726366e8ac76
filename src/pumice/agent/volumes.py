"""The volumes of a pod as folders: made when the pod starts, and removed with the pod's folder."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from pumice.agent.environment import MissingError, Referenced, field_value, resource_value
from pumice.agent.job_hosts import SSH, SVC, JobHosts, plugin_volumes
from pumice.agent.shim.records import Identity, MountPlan
from pumice.kube.resources import Document

FOLDER = "volumes"


def make_volumes(
    pod: Document,
    folder: Path,
    referenced: Referenced,
    address: str,
    hosts: JobHosts,
    identity: Identity | None = None,
) -> dict[str, Path]:
    """Make the folders of all volumes; where each of them is, by name.

    With an identity they are that user's alone, and paths of the machine are not touched: only the user's own process
    does that.
    """
    found = {}
    plugins = plugin_volumes(pod)
    for volume in pod["spec"].get("volumes") or ():
        name, host = volume["name"], volume.get("hostPath")
        if plugins.get(name) == SSH:
            continue  # processes use the keys of their user
        if identity is not None and host:
            found[name] = Path(os.path.normpath(host["path"]))
            continue
        found[name] = _make_volume(pod, volume, folder / FOLDER / name, referenced, address)
        if plugins.get(name) == SVC:
            for file in found[name].iterdir():
                file.write_text(hosts.rewrite(file.read_text()))
        if identity is not None:
            _give_to(found[name], identity)
    return found


def container_mounts(
    pod: Document,
    container: Document,
    volumes: dict[str, Path],
    identity: Identity | None = None,
    skipped: Collection[str] = (),
) -> list[MountPlan]:
    """Where a container sees its volumes. Mount points that are missing are made: as empty folders or files."""
    if identity is not None:
        return [*_user_mounts(pod, container, volumes, skipped)]
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
        found.append(
            {
                "source": str(source),
                "target": str(target),
                "read_only": read_only,
                "own": False,
                "sub_path": "",
                "host_type": "",
            }
        )
    return found


def _user_mounts(
    pod: Document, container: Document, volumes: dict[str, Path], skipped: Collection[str]
) -> Iterator[MountPlan]:
    """The same for a process of a user, which makes and opens everything itself: with the rights of the user."""
    hosts = {volume["name"]: volume.get("hostPath") for volume in pod["spec"].get("volumes") or ()}
    for mount in container.get("volumeMounts") or ():
        if mount["name"] in skipped:
            continue
        source, host = volumes[mount["name"]], hosts[mount["name"]]
        target = os.path.normpath(mount["mountPath"])
        kind = (host.get("type") or "") if host else ""
        in_place = host and str(source) == target and not mount.get("subPath") and not mount.get("readOnly")
        if not in_place or kind:
            yield {
                "source": str(source),
                "target": target,
                "read_only": bool(mount.get("readOnly")),
                "own": not host,
                "sub_path": mount.get("subPath") or "",
                "host_type": kind,
            }


def _give_to(folder: Path, identity: Identity) -> None:
    """Make a volume a user's own; nobody has put anything there but this agent."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(place, name), identity["uid"], identity["gid"], follow_symlinks=False)
    os.chown(folder, identity["uid"], identity["gid"], follow_symlinks=False)
    folder.chmod(0o700)


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
                value = resource_value(pod, pod["spec"]["containers"][0], item["resourceFieldRef"], referenced)
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
    checks["CharDevice"] = path.is_char_device
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
