"""The kubeconfig that leads kubectl to this server."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from pumice.apiserver.private import write_private
from pumice.kube.errors import FieldError

NAME = "pumice"
INSTEAD = "and would be replaced; name another file with --kubeconfig"


def require_ours(path: Path) -> None:
    """Refuse a file that leads elsewhere, before it is replaced: what it says of other clusters would be lost."""
    try:
        found = yaml.safe_load(path.read_bytes()) or {}
        entries = [(kind, entry) for kind in ("clusters", "users", "contexts") for entry in found.get(kind) or ()]
        names = {entry["context"]["cluster"] if kind == "contexts" else entry["name"] for kind, entry in entries}
        others = sorted(names - {NAME})
    except FileNotFoundError:
        return
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError, KeyError, TypeError):
        raise FieldError(str(path), f"is no kubeconfig, {INSTEAD}") from None
    if others:
        raise FieldError(str(path), f"is a kubeconfig of other clusters ({', '.join(others)}), {INSTEAD}")


def write_kubeconfig(path: Path, server: str, *, token: str = "", authority: bytes = b"") -> None:
    """Write a kubeconfig with one context; the file holds the token, so only its owner may read it."""
    cluster: dict[str, Any] = {"server": server}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token} if token else {}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    }
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())
