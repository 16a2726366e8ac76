"""The kubeconfig for clients of this server."""

from __future__ import annotations

import base64
from pathlib import Path

from kubebase.field_error import FieldError
from kubebase.kubeconfig_text import kubeconfig_text, read_kubeconfig_text
from kubebase.local_socket import describe_socket
from kubesim.private_file import write_private

INSTEAD = "and would be replaced; name another file with --kubeconfig"


def require_own_kubeconfig(path: Path, name: str) -> None:
    """Reject a file with other clusters than ``name`` before it is replaced: their entries would be lost."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    written = read_kubeconfig_text(content)
    if written is not None and written["current-context"] == name:
        return
    import yaml

    try:
        found = yaml.safe_load(content) or {}
        entries = [(kind, entry) for kind in ("clusters", "users", "contexts") for entry in found.get(kind) or ()]
        names = {entry["context"]["cluster"] if kind == "contexts" else entry["name"] for kind, entry in entries}
        others = sorted(names - {name})
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError, KeyError, TypeError):
        raise FieldError(str(path), f"is no kubeconfig, {INSTEAD}") from None
    if others:
        raise FieldError(str(path), f"is a kubeconfig of other clusters ({', '.join(others)}), {INSTEAD}")


def write_kubeconfig(
    path: Path, server: str, *, name: str, token: str = "", authority: bytes = b"", socket: Path | None = None
) -> None:
    """Write a kubeconfig with one context of this name; the file holds the token, so only its owner may read it."""
    local = describe_socket(socket) if socket is not None else None
    write_private(path, kubeconfig_text(name, server, base64.b64encode(authority).decode(), token, local).encode())
