"""Where the cluster is and how to enter it, as kubectl is told: the kubeconfig.

``$KUBECONFIG`` may name several files; as with kubectl the first that says something wins, name by name, and files
that are not there are passed over. Certificates and keys stand in the file itself, or in files beside it.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kubebase.field_error import FieldError

VARIABLE = "KUBECONFIG"
_CREDENTIALS = ("exec", "auth-provider", "username")


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach one cluster as one user."""

    server: str
    namespace: str = "default"
    token: str = ""
    authority: bytes = b""  # PEM; empty: those that the system trusts
    client_certificate: bytes = b""
    client_key: bytes = b""
    verify: bool = True
    server_name: str = ""
    token_file: Path | None = None
    """Where the token comes from, if it is one that is replaced from time to time."""
    authority_file: Path | None = None
    """Where ``authority`` comes from, if from a file."""


def default_paths(environment: Mapping[str, str]) -> list[Path]:
    """The files that kubectl would read."""
    listed = [Path(entry) for entry in environment.get(VARIABLE, "").split(os.pathsep) if entry]
    try:
        home = Path.home()
    except RuntimeError:  # nobody in particular, as in a container: who has no home has no file there
        home = Path("~")
    return listed or [home / ".kube" / "config"]


def read_kubeconfig(
    path: Path | None = None, *, context: str = "", environment: Mapping[str, str] | None = None
) -> Access:
    """Read how to reach the cluster of the current context (or of another), or say what is missing where."""
    paths = [path] if path else default_paths(os.environ if environment is None else environment)
    merged, origin = _merged(paths, must_exist=path is not None)
    files = ", ".join(map(str, paths))
    name = context or merged["current-context"]
    if not name:
        raise FieldError(f"{files}: current-context", "none is set; choose one with kubectl config use-context NAME")
    entry = _named(merged, "contexts", "context", name, f"{files}: {'contexts' if context else 'current-context'}")
    where = origin["contexts", name]
    cluster_name, user_name = entry.get("cluster", ""), entry.get("user", "")
    cluster = _named(merged, "clusters", "cluster", cluster_name, f"{where}: contexts[{name}].cluster")
    user = _named(merged, "users", "user", user_name, f"{where}: contexts[{name}].user") if user_name else {}
    return _access(
        entry,
        cluster,
        user,
        _Place(origin["clusters", cluster_name], f"clusters[{cluster_name}]"),
        _Place(origin.get(("users", user_name), where), f"users[{user_name}]"),
    )


def context_names(path: Path | None = None, *, environment: Mapping[str, str] | None = None) -> list[str]:
    """The contexts that there are to choose from."""
    paths = [path] if path else default_paths(os.environ if environment is None else environment)
    merged, _ = _merged(paths, must_exist=path is not None)
    return [str(name) for name in merged["contexts"]]


@dataclass(frozen=True, slots=True)
class _Place:
    """An entry in a file, to find files beside it and to name its fields."""

    file: Path
    entry: str

    def field(self, name: str) -> str:
        return f"{self.file}: {self.entry}.{name}"


def _merged(paths: list[Path], *, must_exist: bool) -> tuple[dict[str, Any], dict[tuple[str, str], Path]]:
    """All files as one, and which file each entry comes from."""
    merged: dict[str, Any] = {"current-context": "", "clusters": {}, "contexts": {}, "users": {}}
    origin: dict[tuple[str, str], Path] = {}
    found = False
    for path in paths:
        try:
            document = yaml.safe_load(path.read_bytes())
        except FileNotFoundError:
            continue
        except OSError as error:
            raise FieldError(str(path), f"cannot be read: {error.strerror}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise FieldError(str(path), f"is not YAML: {' '.join(str(error).split())}") from None
        found = True
        document = _mapping({} if document is None else document, str(path))
        merged["current-context"] = merged["current-context"] or document.get("current-context") or ""
        for kind in ("clusters", "contexts", "users"):
            entries = document.get(kind) or []
            if not isinstance(entries, list):
                raise FieldError(f"{path}: {kind}", "a list is needed")
            for position, entry in enumerate(entries):
                name = _mapping(entry, f"{path}: {kind}[{position}]").get("name", "")
                if name not in merged[kind]:
                    merged[kind][name] = entry
                    origin[kind, name] = path
    if not found:
        listed = ", ".join(map(str, paths))
        hint = "" if must_exist else f"; set {VARIABLE}, or start a cluster with pumice up and use the line it prints"
        raise FieldError(listed, f"no kubeconfig there{hint}")
    return merged, origin


def _named(merged: Mapping[str, Any], kind: str, part: str, name: str, where: str) -> dict[str, Any]:
    entry = merged[kind].get(name)
    if entry is None:
        known = ", ".join(merged[kind]) or "none"
        raise FieldError(where, f"{name!r} is not among the {kind}; there are: {known}")
    return _mapping(entry.get(part) or {}, f"{kind}[{name}].{part}")


def _mapping(found: object, where: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise FieldError(where, f"{type(found).__name__} given, but a mapping is needed")
    return found


def _access(
    context: Mapping[str, Any], cluster: Mapping[str, Any], user: Mapping[str, Any], at: _Place, who: _Place
) -> Access:
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("http://", "https://")):
        raise FieldError(
            at.field("cluster.server"), f"{server!r} is no address; write for example https://127.0.0.1:6443"
        )
    if cluster.get("proxy-url"):
        raise FieldError(at.field("cluster.proxy-url"), "proxies are not supported")
    certificate, key = _content(user, "client-certificate", who), _content(user, "client-key", who)
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise FieldError(who.field(f"user.{missing}"), "certificate and key belong together, but one is missing")
    token, token_file = user.get("token") or "", None
    if not token and user.get("tokenFile"):
        token = _read(who, "user.tokenFile", user["tokenFile"]).decode().strip()
        token_file = who.file.parent / user["tokenFile"]
    authority_file = None
    if cluster.get("certificate-authority") and not cluster.get("certificate-authority-data"):
        authority_file = at.file.parent / cluster["certificate-authority"]
    other = next((name for name in _CREDENTIALS if user.get(name)), None)
    if other and not token and not certificate:
        raise FieldError(who.field(f"user.{other}"), "not supported; use a token or a client certificate")
    return Access(
        server=server.rstrip("/"),
        namespace=context.get("namespace") or "default",
        token=token,
        authority=_content(cluster, "certificate-authority", at),
        client_certificate=certificate,
        client_key=key,
        verify=not cluster.get("insecure-skip-tls-verify"),
        server_name=cluster.get("tls-server-name") or "",
        token_file=token_file,
        authority_file=authority_file,
    )


def _content(entry: Mapping[str, Any], name: str, place: _Place) -> bytes:
    """What stands in ``NAME-data``, or in the file that ``NAME`` names."""
    part = place.entry.partition("s[")[0]
    inline = entry.get(f"{name}-data")
    if inline:
        try:
            return base64.b64decode(inline, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise FieldError(place.field(f"{part}.{name}-data"), "is not base64") from None
    return _read(place, f"{part}.{name}", entry[name]) if entry.get(name) else b""


def _read(place: _Place, field: str, name: str) -> bytes:
    path = place.file.parent / name
    try:
        return path.read_bytes()
    except OSError as error:
        raise FieldError(place.field(field), f"{path} cannot be read: {error.strerror}") from None
