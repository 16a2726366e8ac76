"""The kubeconfig of an embedded cluster as text: written, and read again, without a YAML parser.

A parser takes longer to load than all else that a short command does, and an idle server does not need one.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False  # typing takes longer to load than a short command has to run
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LOCAL_SOCKET = "local-unix-socket"
"""The extension of a cluster entry that names a Unix socket of the same server, for programs on its machine."""


def kubeconfig_text(
    name: str, server: str, authority: str = "", token: str = "", socket: Mapping[str, Any] | None = None
) -> str:
    """A kubeconfig with one context of this name; ``authority``: in base64; ``socket``: see ``local_socket.py``."""
    values = (json.dumps(value) if value else "" for value in (server, authority, token, socket))  # JSON is YAML
    return _filled(name, *values)


def read_kubeconfig_text(content: bytes) -> dict[str, Any] | None:
    """The document that ``kubeconfig_text`` has written, with any values; None if it is any other text."""
    text = content.decode(errors="replace")
    pairs = (line.partition(": ") for line in text.splitlines())
    found = {key.strip(): value for key, colon, value in pairs if colon}
    name, server = found.get("current-context", ""), found.get("server", "")
    authority, token = found.get("certificate-authority-data", ""), found.get("token", "")
    socket = found.get("extension", "")
    plain = name.isascii() and name.replace("-", "").isidentifier()
    if not plain or text != _filled(name, server, authority, token, socket):
        return None
    try:
        cluster: dict[str, Any] = {"server": json.loads(server)}
        if "insecure-skip-tls-verify" in found:
            cluster["insecure-skip-tls-verify"] = True
        elif authority:
            cluster["certificate-authority-data"] = json.loads(authority)
        if socket:
            cluster["extensions"] = [{"name": LOCAL_SOCKET, "extension": json.loads(socket)}]
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


def _filled(name: str, server: str, authority: str, token: str, socket: str) -> str:
    verification = f"\n    certificate-authority-data: {authority}" if authority else ""
    if server.startswith('"http:'):  # without it, the JavaScript client refuses to speak plain HTTP
        verification = "\n    insecure-skip-tls-verify: true"
    if socket:
        verification += f"\n    extensions:\n    - name: {LOCAL_SOCKET}\n      extension: {socket}"
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
