"""A server with made-up documents (src/pumice/ui/CONTRACT.md): large clusters and hostile names, without a cluster.

Everything derives from the parameters, so that two runs show the same page. ``push`` sends an event to every open page.
"""

from __future__ import annotations

import json
import mimetypes
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

WEB = Path(__file__).resolve().parents[3] / "src/pumice/ui/web"
NOW = "2026-11-16T19:12:03Z"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

Json = Any


def queue_row(
    path: str, *, weight: int, part: float, used: int, own: int, entitled: int, leaf: bool
) -> dict[str, Json]:
    """A row of 1,000 cores: everything in thousandths of them."""
    parent, _, name = path.rpartition("/")
    return {
        "path": path,
        "name": name or path,
        "parent": parent or None,
        "depth": path.count("/"),
        "leaf": leaf,
        "object": True,
        "weight": weight,
        "part": part,
        "state": "Open",
        "reclaimable": True,
        "used": {"cpu": used * 1000},
        "entitled": {"cpu": entitled * 1000},
        "own": {"cpu": own * 1000},
        "borrowed": {"cpu": max(0, used - own) * 1000},
        "lent": {"cpu": max(0, own - max(used, entitled)) * 1000},
        "owed": {"cpu": max(0, entitled - used) * 1000},
        "waiting": {"cpu": max(0, entitled - used) * 1000},
        "limit": {},
        "guarantee": {},
        "deserved": {},
        "share": {
            "used": used / 1000,
            "entitled": entitled / 1000,
            "own": own / 1000,
            "limit": None,
            "dominant": "cpu",
        },
        "jobs": {"pending": 0, "inqueue": 1, "running": used % 7, "unknown": 0, "completed": 0},
        "tasks": {"running": used, "waiting": max(0, entitled - used)},
        "conditions": [],
    }


class CannedCluster:
    """The documents, and the pages that listen."""

    def __init__(self, *, teams: int = 3, queues: int = 4, nodes: int = 16, name: str = "team") -> None:
        self.queues = [queue_row("root", weight=1, part=1, used=900, own=1000, entitled=1000, leaf=False)]
        for team in range(teams):
            path = f"root/{name}-{team}"
            own = 1000 // teams
            self.queues.append(
                queue_row(path, weight=1, part=1 / teams, used=own - 5, own=own, entitled=own, leaf=False)
            )
            for number in range(queues):
                own = 1000 // teams // queues
                used = (number * 37) % (2 * own + 1)
                self.queues.append(
                    queue_row(
                        f"{path}/{name}-{team}-{number}",
                        weight=1 + number % 3,
                        part=1 / queues,
                        used=used,
                        own=own,
                        entitled=(own + used) // 2,
                        leaf=True,
                    )
                )
        self.nodes = [
            {
                "name": f"node-{number:04}",
                "state": "NotReady" if number % 97 == 5 else "Ready",
                "schedulable": number % 31 != 7,
                "offered": {"cpu": 64000},
                "used": {"cpu": (number * 1777) % 64001},
                "share": ((number * 1777) % 64001) / 64000,
                "tasks": number % 9,
                "others": 0,
            }
            for number in range(nodes)
        ]
        self.version = 1
        self.forbidden: set[str] = set()
        """Paths that nobody may read."""
        self.token = ""
        """What a viewer must have, in the cookie that a login sets; empty: nothing."""
        self.jobs: list[dict[str, Json]] = []
        self.events: list[dict[str, Json]] = []
        self._listeners: list[queue.Queue[str]] = []

    def document(self, path: str) -> Json:
        """What is served at a path; None: not found."""
        kind = path.removeprefix("/api/").split("/")
        common = {"epoch": "canned", "version": self.version}
        match kind:
            case ["about"]:
                return common | _ABOUT
            case ["tree"]:
                return common | self._tree()
            case ["nodes"]:
                return common | {"nodes": self.nodes}
            case ["jobs"]:
                found = {
                    "total": len(self.jobs),
                    "matched": len(self.jobs),
                    "continue": None,
                    "users": [],
                    "phases": {},
                }
                return common | found | {"jobs": self.jobs}
            case ["jobs", namespace, name]:
                job = next(job for job in self.jobs if job["key"] == f"{unquote(namespace)}/{unquote(name)}")
                return common | {
                    "job": job,
                    "tasks": [],
                    "tasksTotal": 0,
                    "places": [],
                    "events": self.events,
                    "path": self.queues[:2],
                }
            case ["queues", name]:
                found = self._queue(unquote(name))
                return common | found if found else None
            case ["decisions"]:
                return common | {"source": "log", "decisions": []}
            case _:
                return None

    def push(self, event: str, document: Json) -> None:
        """Send a server-sent event to every page."""
        for listener in list(self._listeners):
            listener.put(f"event: {event}\ndata: {json.dumps(document)}\n\n")

    def change_tree(self, rows: list[dict[str, Json]]) -> None:
        """Send new versions of rows that exist."""
        by_path = {row["path"]: row for row in rows}
        self.queues = [by_path.get(row["path"], row) for row in self.queues]
        base, self.version = self.version, self.version + 1
        changes = {
            "changed": rows,
            "lent": {},
            "removed": [],
            "order": None,
            "notes": None,
            "cluster": self._tree()["cluster"],
        }
        self.push("tree", {"version": self.version, "base": base, "time": NOW} | changes)

    def change_nodes(self, rows: list[dict[str, Json]]) -> None:
        """Send new versions of nodes that exist."""
        by_name = {row["name"]: row for row in rows}
        self.nodes = [by_name.get(row["name"], row) for row in self.nodes]
        base, self.version = self.version, self.version + 1
        self.push("nodes", {"version": self.version, "base": base, "changed": rows, "removed": []})

    @contextmanager
    def listener(self) -> Iterator[queue.Queue[str]]:
        """The events for one page."""
        events: queue.Queue[str] = queue.Queue()
        versions = dict.fromkeys(("tree", "nodes", "jobs", "decisions"), self.version)
        connection = {"connected": True, "behind": [], "since": None}
        hello = {"epoch": "canned", "time": NOW, "versions": versions, "connection": connection}
        events.put(f"event: hello\ndata: {json.dumps(hello)}\n\n")
        self._listeners.append(events)
        try:
            yield events
        finally:
            self._listeners.remove(events)

    def _tree(self) -> dict[str, Json]:
        jobs = {"pending": 0, "inqueue": 0, "running": 9, "unknown": 0, "completed": 0}
        cluster = {
            "capacity": {"cpu": 1000000},
            "used": {"cpu": 900000},
            "nodes": {"total": len(self.nodes), "ready": len(self.nodes)},
            "jobs": jobs,
            "tasks": {"running": 20000, "waiting": 100},
        }
        return {"time": NOW, "cluster": cluster, "queues": self.queues, "notes": []}

    def _queue(self, name: str) -> dict[str, Json] | None:
        row = next((row for row in self.queues if name in {row["name"], row["path"]}), None)
        if row is None:
            return None
        above = [other for other in self.queues if row["path"].startswith(other["path"] + "/")]
        holders = {"used": row["used"], "waiting": {}, "share": 0.1, "part": 1, "jobs": 1, "tasks": row["tasks"]}
        flow = {"path": self.queues[1]["path"], "name": self.queues[1]["name"], "amount": 5000}
        return {
            "queue": row,
            "ancestors": above,
            "siblings": [other for other in self.queues if other["parent"] == row["parent"] and other is not row],
            "children": [other for other in self.queues if other["parent"] == row["path"]],
            "jobs": self.jobs,
            "jobsTotal": len(self.jobs),
            "users": [{"name": row["name"]} | holders],
            "namespaces": [{"name": row["name"], "weight": 1, "entitled": row["entitled"]} | holders],
            "flows": {"cpu": {"lendsTo": [flow], "borrowsFrom": [flow]}},
            "userLimits": None,
            "created": NOW,
            "priority": 0,
            "annotations": {},
        }


_ABOUT = {
    "pumice": "0",
    "cluster": "http://127.0.0.1:1",
    "now": NOW,
    "resources": [{"name": "cpu", "unit": "milli", "scale": 1000, "display": "cores", "label": "CPU"}],
    "viewer": {
        "name": None,
        "authentication": "none",
        "canListQueues": True,
        "canListNodes": True,
        "namespaces": None,
    },
    "features": {"history": False, "then": False, "why": False, "decisionKeys": True},
    "policy": {"source": "default", "rule": "steer"},
    "connection": {"connected": True, "behind": [], "since": None},
}


class _Handler(BaseHTTPRequestHandler):
    cluster: CannedCluster
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if address.path.startswith("/api/") and not self._is_allowed():
            self._refuse(401, "Unauthorized", "a token is needed")
        elif address.path in self.cluster.forbidden:
            self._refuse(403, "Forbidden", "you may not read this")
        elif address.path == "/api/stream":
            self._stream()
        elif address.path.startswith("/api/"):
            document = self.cluster.document(address.path)
            if document is None:
                name = unquote(address.path.rpartition("/")[2])
                self._refuse(404, "NotFound", f'Queue "{name}" not found')
            else:
                self._answer(200, "application/json", json.dumps(document).encode())
        elif address.path.startswith("/static/"):
            file = WEB / address.path.removeprefix("/static/")
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            self._answer(200, kind, file.read_bytes())
        else:
            self._answer(200, "text/html; charset=utf-8", (WEB / "index.html").read_bytes())

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if given["token"] == self.cluster.token and self.headers["X-Requested-With"] == "pumice":
            self._answer(204, "application/json", b"", cookie="pumice_ui=yes; HttpOnly; SameSite=Strict; Path=/")
        else:
            self._refuse(401, "Unauthorized", "the token is not valid")

    def _is_allowed(self) -> bool:
        return not self.cluster.token or "pumice_ui=yes" in self.headers.get("Cookie", "")

    def _refuse(self, status: int, reason: str, message: str) -> None:
        error = {"error": {"code": status, "reason": reason, "message": message}}
        self._answer(status, "application/json", json.dumps(error).encode())

    def _answer(self, status: int, kind: str, content: bytes, cookie: str = "") -> None:
        self.send_response(status)
        if cookie:
            self.send_header("Set-Cookie", cookie)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Cache-Control", "no-cache")
        self.end_headers()
        self.wfile.write(content)

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.close_connection = True
        with self.cluster.listener() as events:
            while True:
                try:
                    text = events.get(timeout=2)
                except queue.Empty:
                    text = f"event: beat\ndata: {json.dumps({'time': NOW, 'connection': _ABOUT['connection']})}\n\n"
                try:
                    self.wfile.write(text.encode())
                    self.wfile.flush()
                except OSError:
                    return

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # named so where it is overridden
        """Requests are not printed."""


@contextmanager
def serve(cluster: CannedCluster) -> Iterator[str]:
    """Serve the pages over a cluster; the address."""
    handler = type("Handler", (_Handler,), {"cluster": cluster})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
