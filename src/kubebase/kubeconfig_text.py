"""The kubeconfig of an embedded cluster as text: written, and read again, without a YAML parser.

A parser takes longer to load than all else that a short command does, and an idle server does not need one.
"""

from __future__ import annotations

import json
from typing import Any


def kubeconfig_text(name: str, server: str, authority: str = "", token: str = "") -> str:
    """A kubeconfig with one context of this name; ``authority``: in base64."""
    values = (json.dumps(value) if value else "" for value in (server, authority, token))  # a JSON text is one in YAML
    return _filled(name, *values)


def read_kubeconfig_text(content: bytes) -> dict[str, Any] | None:
    """The document that ``kubeconfig_text`` has written, with any values; None if it is any other text."""
    text = content.decode(errors="replace")
    pairs = (line.partition(": ") for line in text.splitlines())
    found = {key.strip(): value for key, colon, value in pairs if colon}
    name, server = found.get("current-context", ""), found.get("server", "")
    authority, token = found.get("certificate-authority-data", ""), found.get("token", "")
    plain = name.isascii() and name.replace("-", "").isidentifier()
    if not plain or text != _filled(name, server, authority, token):
        return None
    try:
        cluster = {"server": json.loads(server)}
        if "insecure-skip-tls-verify" in found:
            cluster["insecure-skip-tls-verify"] = True
        elif authority:
            cluster["certificate-authority-data"] = json.loads(authority)
        user = {"token": json.loads(token)} if token else {}
    except ValueError:
        return None
    if not all(isinstance(value, str) for value in (cluster["server"], user.get("token", ""))):
        return None
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def _filled(name: str, server: str, authority: str, token: str) -> str:
    verification = f"\n    certificate-authority-data: {authority}" if authority else ""
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
