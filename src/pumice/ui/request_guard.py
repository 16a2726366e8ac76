"""Which requests are answered at all: those that a page of this server, or a program, sends.

A page of another site can make a browser send requests here. It could read the answers if a name that it controls
resolved to this server (DNS rebinding), so the Host header must name the server; and no answer allows another origin to
read it. Browsers also say where a request comes from (Sec-Fetch-Site), which is checked where they do.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
_OWN_FETCHES = frozenset({"same-origin", "none"})


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class RequestGuard:
    """Judges the headers of requests. ``hosts``: the names of this server; None: any, because a token protects it."""

    def __init__(self, hosts: Collection[str] | None) -> None:
        self._hosts = hosts

    def refusal(self, headers: Mapping[str, str], *, data: bool) -> str:
        """Why a request is refused; empty: it is not. ``data``: it asks for data, not for files of the page."""
        if self._hosts is not None and _host_name(headers.get("Host", "")) not in self._hosts:
            return "the Host header names another server"
        site = headers.get("Sec-Fetch-Site")
        if data and site is not None and site not in _OWN_FETCHES:
            return "requests from other sites are not answered"
        return ""


def _host_name(header: str) -> str:
    """The host of a Host header, without its port."""
    name, colon, port = header.rpartition(":")
    return (name if colon and port.isdecimal() else header).lower()
