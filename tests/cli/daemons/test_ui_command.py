"""``pumice ui`` as a process, beside ``pumice up`` and by itself, and its refusals to be reached by everybody."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pumice.cli.daemons.ui_command import ui
from tests.support.processes import killed_after, started_process

KUBECONFIG = (
    "{clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}], users: [], "
    "contexts: [{name: a, context: {cluster: a}}], current-context: a}"
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen", "0.0.0.0:0"], "is reachable from other machines"),
        (["--listen", ":0", "--token", "x"], "is reachable from other machines"),
        (["--listen", "0.0.0.0:0", "--self-signed"], "is reachable from other machines"),
        (["--listen", "nowhere"], "must be an address to listen on"),
        (["--tls-cert", __file__], "--tls-cert and --tls-key must be given together"),
        (["--tls-cert", __file__, "--tls-key", __file__, "--self-signed"], "mutually exclusive"),
        (["--tls-cert", __file__, "--tls-key", __file__], f"--tls-cert {__file__}"),
        (["--token", "x", "--cluster-auth"], "mutually exclusive"),
        (["--token", " "], "must not be empty"),
    ],
)
def test_invalid_options_are_refused(arguments: list[str], message: str, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    given = ["--kubeconfig", str(kubeconfig), "--listen", "127.0.0.1:0", *arguments]
    done = CliRunner().invoke(ui, given)
    assert (done.exit_code, message in done.output.replace("\n", " ")) == (2, True), done.output


def test_page_beside_the_cluster_and_over_tls_with_a_token(tmp_path: Path) -> None:
    data = tmp_path / "data"
    command = [sys.executable, "-m", "pumice", "up", "--data", str(data), "--nodes", "1", "--port", "0", "--ui"]
    with started_process(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        url = page_address(process)
        assert url.startswith("http://127.0.0.1:"), url
        about = await_document(f"{url}/api/about")
        assert about["features"] == {"history": True, "then": True, "why": True, "decisionKeys": True}
        own = [sys.executable, "-m", "pumice", "ui", "--kubeconfig", str(data / "kubeconfig"), "--token", "secret"]
        own += ["--listen", "127.0.0.1:0", "--self-signed"]
        with started_process(own, stderr=subprocess.PIPE, text=True) as guarded:
            url = page_address(guarded)
            assert url.startswith("https://127.0.0.1:"), url
            tree = await_document(f"{url}/api/tree", "secret")
            assert [row["name"] for row in tree["queues"]] == ["root", "default"]
            assert get(f"{url}/api/tree")[0] == 401


def page_address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    with killed_after(process, 120):
        for line in process.stderr:
            if line.startswith("web page at "):
                return line.removeprefix("web page at ").strip()
    raise AssertionError("the process ended")


def await_document(url: str, token: str = "") -> dict[str, Any]:
    while True:
        status, body = get(url, token)
        if status == 200:
            return dict(json.loads(body))
        assert status in (0, 503), (status, body)
        time.sleep(0.1)


def get(url: str, token: str = "") -> tuple[int, bytes]:
    """Status and body; status 0 if nothing listens yet."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, context=trusting, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except urllib.error.URLError:
        return 0, b""
