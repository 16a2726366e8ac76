"""Sockets to listen on, for servers beside an API: webhooks and the page."""

from __future__ import annotations

import socket


def bound(host: str, port: int) -> socket.socket:
    """A bound socket; an empty host means every address of the machine. It does not listen yet.

    Raises ``OSError`` if the address is not available: better at once than when everything else is ready.
    """
    if not host and socket.has_dualstack_ipv6():
        made = socket.socket(socket.AF_INET6)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    else:
        made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    return made
