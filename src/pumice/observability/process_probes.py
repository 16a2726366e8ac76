"""What a process tells about itself: whether it is alive and ready, its metrics; and where it tells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import Metric

PORTS = 65_536

Address = tuple[str, int]
"""Host and port; an empty host is every address of the machine, port 0 any port that is free."""


@dataclass(frozen=True, slots=True)
class Probes:
    """The probes of a process. The first two return an error, or nothing; they run in another thread."""

    alive: Callable[[], str]
    ready: Callable[[], str]
    metrics: Callable[[], list[Metric]] | None = None
    history: Callable[[Mapping[str, str]], tuple[int, bytes]] | None = None
    """Answers a query for the history of queues: the status code and the body."""


class AddressError(ValueError):
    """The text is not an address to listen on."""


def parse_address(text: str) -> Address:
    """The address that ``127.0.0.1:8080``, ``[::1]:8080`` or ``:8080`` is."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        port = ""  # an IPv6 address without brackets: where it ends is anybody's guess
    if not (colon and port.isascii() and port.isdecimal() and int(port) < PORTS):
        raise AddressError(
            f"Invalid value: {text!r}: must be an address to listen on, such as 127.0.0.1:8080, [::1]:8080 or :0"
        )
    return host, int(port)
