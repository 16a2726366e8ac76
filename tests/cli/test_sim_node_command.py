"""``pumice sim node`` against an API that remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from pumice.cli.sim_node_command import sim


@pytest.fixture
def asked(tmp_path) -> Iterator[tuple[list, Path]]:
    seen: list[tuple[str, str, object, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def answer(self):
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            seen.append((self.command, self.path, body, self.headers.get("Authorization")))
            known = self.path.startswith("/api/v1/nodes/node-0")
            name = self.path.rpartition("/")[2]
            found = {"kind": "Node"} if known else {"kind": "Status", "message": f'nodes "{name}" not found'}
            content = json.dumps(found).encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PATCH = answer  # noqa: N815 - the names that the class looks for

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    path = tmp_path / "config"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                "users": [{"name": "u", "user": {"token": "secret"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    yield seen, path
    server.shutdown()
    thread.join()
    server.server_close()


def call(*arguments: str, **environment: str):
    return CliRunner().invoke(sim, ["node", *arguments], env=environment)


@pytest.mark.parametrize(
    ("command", "patch", "said"),
    [
        ("lose", {"metadata": {"annotations": {"pumice.dev/lost": "true"}}}, "lost"),
        ("restore", {"metadata": {"annotations": {"pumice.dev/lost": None}}}, "restored"),
        ("cordon", {"spec": {"unschedulable": True}}, "cordoned"),
        ("uncordon", {"spec": {"unschedulable": None}}, "uncordoned"),
    ],
)
def test_patch_of_each_command(asked, command, patch, said):
    seen, path = asked
    result = call(command, "node-000", "node-001", KUBECONFIG=str(path))
    assert (result.exit_code, result.output) == (0, f"node/node-000 {said}\nnode/node-001 {said}\n")
    written = [(where, body) for verb, where, body, _ in seen if verb == "PATCH"]
    assert written == [("/api/v1/nodes/node-000", patch), ("/api/v1/nodes/node-001", patch)]
    assert {token for *_, token in seen} == {"Bearer secret"}


def test_sim_node_lose_with_unknown_node_loses_none(asked):
    seen, path = asked
    result = call("lose", "node-000", "other", "--kubeconfig", str(path))
    assert result.exit_code == 1
    assert 'Error: nodes "other" not found' in result.output
    assert [verb for verb, *_ in seen] == ["GET", "GET"]


def test_unreachable_cluster_is_an_error(tmp_path, asked):
    _, path = asked
    silent = tmp_path / "silent"
    silent.write_text(path.read_text().replace("127.0.0.1:", "127.0.0.1:1 #"))
    result = call("lose", "n", "--kubeconfig", str(silent))
    assert result.exit_code == 1
    assert "the cluster is not reachable: http://127.0.0.1:1" in result.output
    assert "with pumice up" in result.output


def test_a_kubeconfig_that_is_not_there(tmp_path):
    result = call("lose", "n", KUBECONFIG=str(tmp_path / "no"))
    assert result.exit_code == 1
    assert f"{tmp_path / 'no'}: file not found" in result.output
