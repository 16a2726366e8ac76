"""The socket in a kubeconfig is used if it is the one that was meant, and otherwise the port."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubebase import local_socket
from kubebase.kubeconfig_text import kubeconfig_text
from kubebase.local_socket import describe_socket, usable_socket
from pumice.kube.client.kubeconfig import read_kubeconfig

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
    assert local_socket.BOOT_ID.read_text().strip()
