"""The socket in a kubeconfig is used if it is the one that was meant, and otherwise the port."""

from __future__ import annotations

import asyncio
import os
import socket
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubebase import local_socket
from kubebase.kubeconfig_text import kubeconfig_text
from kubebase.local_socket import check_listener, describe_socket, usable_socket
from kubesim.api.status import ApiError
from kubesim.kubelet.node_logs import ask_node
from pumice.kube.client.api_errors import UnreachableError
from pumice.kube.client.kubeconfig import Access, read_kubeconfig
from pumice.kube.client.sync_client import Client
from pumice.kube.client.transport import Session

SERVER = "https://127.0.0.1:6440"


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with socket.socket(socket.AF_UNIX) as made:
        folder = os.open(tmp_path, os.O_PATH)  # the path itself may be too long
        made.bind(f"/proc/self/fd/{folder}/s")
        os.close(folder)
        yield tmp_path / "s"


def test_the_socket_that_was_meant_is_used(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig_text("pumice", SERVER, token="t", socket=describe_socket(path)))
    found = read_kubeconfig(file)
    assert (found.server, found.endpoint, found.token) == (SERVER, f"unix://{path}", "t")


def test_every_other_one_is_not(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket of a later server, a file, none at all; of another boot or machine; of another user."""
    meant = describe_socket(path)
    assert usable_socket(meant) == str(path)
    (tmp_path / "file").touch()
    others = [
        {**meant, "inode": meant["inode"] + 1},
        {**meant, "path": str(tmp_path / "none")},
        {**meant, "path": str(tmp_path / "file"), "inode": (tmp_path / "file").stat().st_ino},
        {**meant, "boot": "of another machine"},
        {**meant, "path": 7},
        {**meant, "path": "a\0b"},
        {},
    ]
    assert [usable_socket(other) for other in others] == [""] * len(others)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert usable_socket(meant) == ""


def test_a_kubeconfig_whose_socket_is_gone_leads_to_the_port(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig_text("pumice", SERVER, token="t", socket=describe_socket(path)))
    path.unlink()
    assert read_kubeconfig(file).endpoint == SERVER
    entry = "    extensions:\n    - name: local-unix-socket\n      extension:"
    for damaged in ('"text"', "7", "{path: []}"):
        file.write_text(kubeconfig_text("pumice", SERVER).replace("users:", f"{entry} {damaged}\nusers:"))
        assert read_kubeconfig(file).endpoint == SERVER
    assert Path(local_socket.BOOT_ID).read_text().strip()


NOBODY = 65534


@pytest.fixture
def impostor(tmp_path: Path) -> Iterator[socket.socket]:
    """A socket on which another user listens, where a server is expected."""
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        os.seteuid(NOBODY)
        try:
            listening.listen()
        finally:
            os.seteuid(0)
        listening.settimeout(10)
        yield listening


class Cluster:
    """An API with the Secret of a node's logs."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, *_: str) -> dict[str, Any]:
        return {"data": {"socket": b64encode(os.fsencode(self._path)).decode(), "token": b64encode(b"t").decode()}}


def test_nothing_is_sent_to_another_user_who_listens(impostor: socket.socket, tmp_path: Path) -> None:
    """Commands, node agents, and the server that asks an agent for logs; each hangs up."""
    access = Access(f"unix://{tmp_path}/s", token="secret")
    client = Client(access)
    with pytest.raises(UnreachableError, match="another user listens there"):
        client.create("/api/v1/namespaces/default/pods", {"env": "secret"})
    client.close()

    async def ask() -> None:
        async with Session(access) as session:
            with pytest.raises(UnreachableError, match="another user listens there"):
                await session.call("GET", "/api/v1/pods")
        with pytest.raises(ApiError, match="another user listens there"):
            await ask_node(Cluster(tmp_path / "s"), {"metadata": {"name": "here"}}, "/usage")  # type: ignore[arg-type]  # all of it that is used

    asyncio.run(ask())
    for _ in range(3):
        connected, _ = impostor.accept()
        with connected:
            assert connected.recv(1) == b""


def test_root_and_this_user_may_listen(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as client:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        client.connect(str(tmp_path / "s"))
        check_listener(client)
