"""The Unix socket: in a safe folder, one server at a time, and the kernel's word on who connects."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from kubebase.field_error import FieldError
from kubebase.local_socket import peer_user
from kubesim.api.access import Principal
from kubesim.http.unix_socket import bind_unix_socket
from kubesim.server import ServerSettings, running_cluster


def test_the_user_at_the_other_end_is_known(tmp_path: Path) -> None:
    path = tmp_path / "run" / "s"
    with bind_unix_socket(path) as server:
        server.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            connected, _ = server.accept()
            with connected:
                assert peer_user(connected) == os.geteuid()
        assert path.stat().st_mode & 0o777 == 0o666
    assert not path.exists()
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert peer_user(other) == -1
    assert peer_user(None) == -1


def test_a_socket_that_was_left_is_replaced_and_one_in_use_is_not(tmp_path: Path) -> None:
    path = tmp_path / "run" / "s"
    path.parent.mkdir(mode=0o755)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with bind_unix_socket(path) as server:
        server.listen()
        with pytest.raises(FieldError, match="another server listens there"), bind_unix_socket(path):
            pass
    path.write_text("")
    with pytest.raises(FieldError, match="exists and is not a socket"), bind_unix_socket(path):
        pass
    assert path.exists()


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(FieldError, match="other users may write"), bind_unix_socket(folder / "s"):
        pass
    folder.chmod(0o1777)
    with pytest.raises(FieldError, match="other users may write"), bind_unix_socket(folder / "s"):
        pass
    (folder / "inner").mkdir(mode=0o755)
    folder.chmod(0o777)
    with pytest.raises(FieldError, match="other users may write"), bind_unix_socket(folder / "inner" / "s"):
        pass


async def ask(path: Path, *headers: str) -> str:
    """The first line of an answer over a socket."""
    reader, writer = await asyncio.open_unix_connection(path)
    lines = ["GET /api/v1/namespaces HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n")[0].decode()


class TrustsEverybody:
    """A policy to which every user of this machine is a superuser."""

    def token_owner(self, token: str) -> None:
        return None

    async def principal(self, uid: int) -> Principal:
        return Principal("somebody", uid, privileged=True)

    def judge(self, *_: object) -> bool:
        return True


@pytest.mark.parametrize("shared", [False, True])
def test_the_local_socket_wants_the_token_as_the_port_does(tmp_path: Path, shared: bool) -> None:
    """Whoever connects: what the kernel says of them does not count there. It is for its owner alone, and goes."""
    path = tmp_path / "data" / "s"
    path.parent.mkdir()

    async def check() -> None:
        settings = ServerSettings(
            data=path.parent,
            kubeconfig=tmp_path / "kubeconfig",
            nodes=[],
            token="secret",
            local_socket=path,
            access=(lambda api: TrustsEverybody()) if shared else None,  # type: ignore[arg-type, return-value]
        )
        async with running_cluster(settings):
            assert path.stat().st_mode & 0o777 == 0o600
            assert await ask(path) == "HTTP/1.1 401 Unauthorized"
            assert await ask(path, "Authorization: Bearer other") == "HTTP/1.1 401 Unauthorized"
            assert await ask(path, "Authorization: Bearer secret") == "HTTP/1.1 200 OK"
        assert not path.exists()

    asyncio.run(check())


def test_a_path_that_is_too_long_for_a_socket_leaves_the_port(tmp_path: Path) -> None:
    data = tmp_path / ("long" * 30)
    data.mkdir()

    async def check() -> None:
        settings = ServerSettings(data, tmp_path / "kubeconfig", nodes=[], token="secret", local_socket=data / "s")
        async with running_cluster(settings):
            assert "extension" not in (tmp_path / "kubeconfig").read_text()

    asyncio.run(check())
