"""The Unix socket: in a safe folder, one server at a time, and the kernel's word on who connects."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from kubebase.field_error import FieldError
from kubesim.http.unix_socket import bind_unix_socket, peer_user


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
