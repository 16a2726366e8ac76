"""asyncio without OpenSSL: for a server of plain HTTP alone, and never in the way of TLS."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml

from kubesim.http.auth import needs_tls
from kubesim.http.tls import load_or_issue_certificates
from tests.support.processes import run_process, started_process

SECONDS = 30.0


def python(code: str, *arguments: object) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return run_process(command, capture_output=True, text=True, check=True, timeout=SECONDS).stdout.strip()


def test_asyncio_comes_without_it_and_the_module_itself_stays() -> None:
    code = """
import sys
from kubesim.asyncio_without_ssl import load_asyncio
load_asyncio()
import asyncio
print("_ssl" in sys.modules, asyncio.sslproto.ssl)
import ssl
print(type(ssl.create_default_context()).__name__)
"""
    assert python(code).split() == ["False", "None", "SSLContext"]


@pytest.mark.parametrize("first", ["ssl", "asyncio"])
def test_load_asyncio_keeps_ssl_when_called_after_import(first: str) -> None:
    code = f"""
import sys, {first}
from kubesim.asyncio_without_ssl import load_asyncio
load_asyncio()
import asyncio, ssl
print(asyncio.sslproto.ssl is ssl)
"""
    assert python(code) == "True"


def test_tls_over_it_is_an_error_and_not_plain_text(tmp_path: Path) -> None:
    """A server sends everybody away without a word; a client is told."""
    made = load_or_issue_certificates(tmp_path / "tls", "127.0.0.1")
    code = """
import sys
from kubesim.asyncio_without_ssl import load_asyncio
load_asyncio()
import asyncio, ssl

class Talkative(asyncio.Protocol):
    def connection_made(self, transport):
        transport.write(b"in the clear")

async def main():
    loop = asyncio.get_running_loop()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    server = await loop.create_server(Talkative, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"hello")
    try:
        print(await reader.read())
    except ConnectionResetError:
        print(b"")
    try:
        await asyncio.open_connection("127.0.0.1", port, ssl=True)
    except RuntimeError as error:
        print(error)

asyncio.run(main())
"""
    assert python(code, made.certificate, made.key).splitlines() == ["b''", "stdlib ssl module not available"]


@pytest.mark.parametrize(
    ("host", "token", "needed"),
    [
        ("127.0.0.1", "", False),
        ("::1", "", False),
        ("localhost", "", False),
        ("127.0.0.1", "secret", True),
        ("0.0.0.0", "", True),
        ("192.0.2.1", "secret", True),
    ],
)
def test_only_loopback_without_a_token_is_plain(host: str, token: str, needed: bool) -> None:
    assert needs_tls(host, token) is needed


@pytest.mark.parametrize("how", ["token", "certificate"])
def test_the_command_speaks_tls_where_it_should(how: str, tmp_path: Path) -> None:
    own = load_or_issue_certificates(tmp_path / "own", "127.0.0.1")
    chosen = {"token": ["--token", "t"], "certificate": ["--tls-cert", own.certificate, "--tls-key", own.key]}[how]
    place = tmp_path / "data"
    command = [sys.executable, "-m", "pumice", "up", "--data", place, "--port", "0", "--nodes", "0", *chosen]
    with started_process(
        [*map(str, command), "--no-scheduler", "--no-controllers"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stdout.readline().startswith(b"export ")
        config = yaml.safe_load((place / "kubeconfig").read_text())
        cluster, token = config["clusters"][0]["cluster"], config["users"][0]["user"]["token"]
        trusted = base64.b64decode(cluster["certificate-authority-data"]).decode() + own.authority.read_text()
        asked = urllib.request.Request(f"{cluster['server']}/version", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, context=ssl.create_default_context(cadata=trusted)) as answer:
            assert json.load(answer)["major"]
