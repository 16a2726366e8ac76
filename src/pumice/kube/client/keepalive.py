"""TCP keepalive: a peer that vanished without a word is noticed after about a minute."""

from __future__ import annotations

import socket

KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Idle seconds, then so many probes so far apart."""


def keep_alive(connection: socket.socket) -> None:
    """Have the kernel probe a connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        if hasattr(socket, option):  # not every system has all of them
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
