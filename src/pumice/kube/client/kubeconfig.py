"""Access to a cluster as kubectl has it: the kubeconfig.

``$KUBECONFIG`` may name several files; as with kubectl the first file that defines a name wins, and missing files are
skipped. Certificates, keys and tokens are in the kubeconfig itself, in files that it names, or come from a command
(``exec_plugin``).
"""

from __future__ import annotations

import base64
import binascii
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubebase.field_error import FieldError
from kubebase.kubeconfig_text import LOCAL_SOCKET, read_kubeconfig_text
from kubebase.local_socket import usable_socket
from pumice.kube.client.credentials import CredentialSource, FixedCredential, TokenFile

if TYPE_CHECKING:
    from pumice.kube.client.exec_plugin import ExecConfig, ExecPlugin

VARIABLE = "KUBECONFIG"
UNIX_SCHEME = "unix://"
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"
"""The extension of a cluster entry that its exec plugin is given as ``spec.cluster.config``."""
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")


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
    """The file of the token, if it is one that is replaced from time to time."""
    authority_file: Path | None = None
    """Where ``authority`` comes from, if from a file."""
    exec_plugin: ExecPlugin | None = None
    """The command that supplies the credentials, if one does."""
    local_socket: str = ""
    """The path of a Unix socket of the same server on this machine, if there is one."""

    @property
    def endpoint(self) -> str:
        """The URL to connect to: ``unix://PATH`` for a socket, else that of the server."""
        return f"{UNIX_SCHEME}{self.local_socket}" if self.local_socket else self.server

    def credential_source(self, now: Callable[[], float] = time.monotonic) -> CredentialSource:
        """Where a client of this cluster gets the credential for each request from."""
        if self.exec_plugin is not None:
            return self.exec_plugin
        if self.token_file is not None:
            return TokenFile(self.token_file, self.token, now)
        return FixedCredential(self.token)


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
    """Read how to reach the cluster of the current context, or of another; raises ``FieldError``."""
    paths = [path] if path else default_paths(os.environ if environment is None else environment)
    merged, origin = _merged(paths, must_exist=path is not None)
    files = ", ".join(map(str, paths))
    name = context or merged["current-context"]
    if not name:
        raise FieldError(
            f"{files}: current-context", "Required value: choose a context with kubectl config use-context NAME"
        )
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
            content = path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise FieldError(str(path), f"cannot read the file: {error.strerror}") from None
        document = read_kubeconfig_text(content) or _parsed(content, path)
        found = True
        document = _mapping({} if document is None else document, str(path))
        merged["current-context"] = merged["current-context"] or document.get("current-context") or ""
        for kind in ("clusters", "contexts", "users"):
            entries = document.get(kind) or []
            if not isinstance(entries, list):
                raise FieldError(f"{path}: {kind}", "must be a list")
            for position, entry in enumerate(entries):
                name = _mapping(entry, f"{path}: {kind}[{position}]").get("name", "")
                if name not in merged[kind]:
                    merged[kind][name] = entry
                    origin[kind, name] = path
    if not found:
        listed = ", ".join(map(str, paths))
        hint = (
            "" if must_exist else f"; set {VARIABLE}, or start a cluster with pumice up and use the line that it prints"
        )
        raise FieldError(listed, f"file not found{hint}")
    return merged, origin


def _parsed(content: bytes, path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FieldError(str(path), f"not valid YAML: {' '.join(str(error).split())}") from None


def _named(merged: Mapping[str, Any], kind: str, part: str, name: str, where: str) -> dict[str, Any]:
    entry = merged[kind].get(name)
    if entry is None:
        known = ", ".join(merged[kind]) or "none"
        raise FieldError(where, f"Not found: {name!r}: known {kind} are {known}")
    return _mapping(entry.get(part) or {}, f"{kind}[{name}].{part}")


def _mapping(found: object, where: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise FieldError(where, f"Invalid value: {type(found).__name__}: must be a mapping")
    return found


def _access(
    context: Mapping[str, Any], cluster: Mapping[str, Any], user: Mapping[str, Any], at: _Place, who: _Place
) -> Access:
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("http://", "https://")):
        raise FieldError(
            at.field("cluster.server"), f"Invalid value: {server!r}: must be a URL such as https://127.0.0.1:6443"
        )
    if cluster.get("proxy-url"):
        raise FieldError(at.field("cluster.proxy-url"), "Forbidden: proxies are not supported")
    certificate, key = _content(user, "client-certificate", who), _content(user, "client-key", who)
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise FieldError(
            who.field(f"user.{missing}"), "certificate and key must be given together; one of them is missing"
        )
    token, token_file = user.get("token") or "", None
    if user.get("tokenFile"):  # the file wins over a token beside it, as with kubectl
        token = _read(who, "user.tokenFile", user["tokenFile"]).decode().strip() or token
        token_file = who.file.parent / user["tokenFile"]
    authority_file = None
    if cluster.get("certificate-authority") and not cluster.get("certificate-authority-data"):
        authority_file = at.file.parent / cluster["certificate-authority"]
    exec_plugin = None
    if not token and not certificate:
        _check_supported(user, who)
        if user.get("exec"):
            from pumice.kube.client.exec_plugin import ExecPlugin

            exec_plugin = ExecPlugin(_exec_config(_mapping(user["exec"], who.field("user.exec")), cluster, at, who))
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
        exec_plugin=exec_plugin,
        local_socket=_local_socket(cluster),
    )


def _local_socket(cluster: Mapping[str, Any]) -> str:
    """The socket that an embedded server has for programs of this user on this machine; empty if there is none."""
    for entry in cluster.get("extensions") or ():
        if isinstance(entry, dict) and entry.get("name") == LOCAL_SOCKET and isinstance(entry.get("extension"), dict):
            return usable_socket(entry["extension"])
    return ""


def _check_supported(user: Mapping[str, Any], who: _Place) -> None:
    if user.get("auth-provider"):
        raise FieldError(
            who.field("user.auth-provider"),
            "auth providers are not supported: Kubernetes 1.26 removed those of gcp and azure; use user.exec with the "
            "credential plugin of your cloud (gke-gcloud-auth-plugin, kubelogin, aws eks get-token)",
        )
    if user.get("username"):
        raise FieldError(
            who.field("user.username"),
            "Kubernetes 1.19 removed basic authentication; use a token, a client certificate or user.exec",
        )


def _exec_config(entry: Mapping[str, Any], cluster: Mapping[str, Any], at: _Place, who: _Place) -> ExecConfig:
    version, command = entry.get("apiVersion"), entry.get("command")
    if version not in EXEC_VERSIONS:
        raise FieldError(
            who.field("user.exec.apiVersion"),
            f"Unsupported value: {version!r}: supported values: {', '.join(EXEC_VERSIONS)}",
        )
    if not isinstance(command, str) or not command:
        raise FieldError(who.field("user.exec.command"), "Required value: the command that prints the credentials")
    if os.sep in command:  # a name without one is looked up in PATH
        command = str(who.file.parent / command)
    mode = entry.get("interactiveMode") or ("IfAvailable" if version.endswith("v1beta1") else None)
    if mode not in INTERACTIVE_MODES:
        raise FieldError(
            who.field("user.exec.interactiveMode"),
            (f"Unsupported value: {mode!r}" if mode else f"Required value for {version}")
            + f": supported values: {', '.join(INTERACTIVE_MODES)}",
        )
    from pumice.kube.client.exec_plugin import ExecConfig

    return ExecConfig(
        field=who.field("user.exec"),
        command=command,
        api_version=version,
        arguments=tuple(_strings(entry.get("args"), who.field("user.exec.args"))),
        environment=tuple(_variables(entry.get("env"), who.field("user.exec.env"))),
        install_hint=str(entry.get("installHint") or "").strip(),
        interactive_mode=mode,
        cluster=_cluster_info(cluster, at) if entry.get("provideClusterInfo") else None,
    )


def _cluster_info(cluster: Mapping[str, Any], at: _Place) -> dict[str, object]:
    """The cluster as passed to an exec plugin: the certificate authority is always inline."""
    copied = ("server", "tls-server-name", "insecure-skip-tls-verify", "disable-compression")
    info: dict[str, object] = {name: cluster[name] for name in copied if cluster.get(name)}
    authority = _content(cluster, "certificate-authority", at)
    if authority:
        info["certificate-authority-data"] = base64.b64encode(authority).decode()
    for extension in cluster.get("extensions") or ():
        if isinstance(extension, dict) and extension.get("name") == EXEC_EXTENSION:
            info["config"] = extension.get("extension")
    return info


def _strings(found: object, where: str) -> list[str]:
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise FieldError(where, "must be a list of strings")
    return found


def _variables(found: object, where: str) -> list[tuple[str, str]]:
    variables = []
    for position, each in enumerate([] if found is None else found if isinstance(found, list) else [found]):
        variable = _mapping(each, f"{where}[{position}]")
        name, value = variable.get("name"), variable.get("value", "")
        if not isinstance(name, str) or not name or not isinstance(value, str):
            raise FieldError(f"{where}[{position}]", "Required value: name and value, both strings")
        variables.append((name, value))
    return variables


def _content(entry: Mapping[str, Any], name: str, place: _Place) -> bytes:
    """The value of ``NAME-data``, or the content of the file ``NAME``."""
    part = place.entry.partition("s[")[0]
    inline = entry.get(f"{name}-data")
    if inline:
        try:
            return base64.b64decode(inline, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise FieldError(place.field(f"{part}.{name}-data"), "Invalid value: must be base64") from None
    return _read(place, f"{part}.{name}", entry[name]) if entry.get(name) else b""


def _read(place: _Place, field: str, name: str) -> bytes:
    path = place.file.parent / name
    try:
        return path.read_bytes()
    except OSError as error:
        raise FieldError(place.field(field), f"cannot read {path}: {error.strerror}") from None
