"""The kubeconfig for clients of this server.

It is written, and recognised at the next start, without a YAML parser, which an idle server does not load.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from kubebase.field_error import FieldError
from kubesim.private_file import write_private

INSTEAD = "and would be replaced; name another file with --kubeconfig"


def require_own_kubeconfig(path: Path, name: str) -> None:
    """Reject a file with other clusters than ``name`` before it is replaced: their entries would be lost."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    if _as_written(content, name):
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


def write_kubeconfig(path: Path, server: str, *, name: str, token: str = "", authority: bytes = b"") -> None:
    """Write a kubeconfig with one context of this name; the file holds the token, so only its owner may read it."""
    trusted = base64.b64encode(authority).decode()
    values = (json.dumps(value) if value else "" for value in (server, trusted, token))  # a JSON text is one in YAML
    write_private(path, _text(name, *values).encode())


def _text(name: str, server: str, trusted: str, token: str) -> str:
    verification = f"\n    certificate-authority-data: {trusted}" if trusted else ""
    if server.startswith('"http:'):  # without it, the JavaScript client refuses to speak plain HTTP
        verification = "\n    insecure-skip-tls-verify: true"
    user = f"\n    token: {token}" if token else " {}"
    return f"""\
apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    server: {server}{verification}
users:
- name: {name}
  user:{user}
contexts:
- name: {name}
  context:
    cluster: {name}
    user: {name}
current-context: {name}
"""


def _as_written(content: bytes, name: str) -> bool:
    """Whether a file is a kubeconfig written by this module, with any values."""
    text = content.decode(errors="replace")
    found = dict(line.strip().split(": ", 1) for line in text.splitlines() if ": " in line)
    return text == _text(name, *(found.get(key, "") for key in ("server", "certificate-authority-data", "token")))
