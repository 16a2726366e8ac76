"""The kubeconfig that leads kubectl to this server."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from pumice.apiserver.private import write_private

NAME = "pumice"


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
