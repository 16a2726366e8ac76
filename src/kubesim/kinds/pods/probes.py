"""Validation of probes and lifecycle hooks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kubesim.api.field_errors import FieldProblem, forbidden, invalid, required
from kubesim.kinds.pods import names
from kubesim.registry.registry import Object

SCHEMES: Final = ("HTTP", "HTTPS")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_COUNTS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HEADER: Final = re.compile(r"[-A-Za-z0-9]+")


def check_probe(probe: Object, field: str, *, once: bool = True, grace: bool = True) -> Iterator[FieldProblem]:
    """The problems of a probe. ``once``: a single success must do; ``grace``: it may have a grace of its own."""
    yield from _check_handler(probe, field)
    for count in _COUNTS:
        if probe.get(count, 0) < 0:
            yield invalid(f"{field}.{count}", probe[count], "must be greater than or equal to 0")
    own = probe.get("terminationGracePeriodSeconds")
    if own is not None and own <= 0:
        yield invalid(f"{field}.terminationGracePeriodSeconds", own, "must be greater than 0")
    if once and probe.get("successThreshold", 1) != 1:
        yield invalid(f"{field}.successThreshold", probe["successThreshold"], "must be 1")
    if own is not None and not grace:
        yield invalid(f"{field}.terminationGracePeriodSeconds", own, "must not be set for readinessProbes")


def check_lifecycle(lifecycle: Object, field: str, grace: int) -> Iterator[FieldProblem]:
    """The problems of the hooks of a container whose pod has ``grace`` seconds to stop."""
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            handler = lifecycle[hook]
            yield from _check_handler(handler, f"{field}.{hook}")
            pause = handler.get("sleep", {}).get("seconds", 0)
            if not 0 <= pause <= grace:
                yield invalid(
                    f"{field}.{hook}.sleep",
                    pause,
                    f"must be non-negative and less than terminationGracePeriodSeconds ({grace})",
                )


def _check_handler(handler: Object, field: str) -> Iterator[FieldProblem]:
    kinds = [kind for kind in _HANDLERS if kind in handler]
    if not kinds:
        yield required(field, "must specify a handler type")
        return
    for kind in kinds[1:]:
        yield forbidden(f"{field}.{kind}", "may not specify more than 1 handler type")
    action: Object = handler[kinds[0]]
    where = f"{field}.{kinds[0]}"
    if kinds[0] == "exec":
        if not action.get("command"):
            yield required(f"{where}.command")
    elif kinds[0] != "sleep":
        yield from names.check_port(action.get("port", 0), f"{where}.port")
    if kinds[0] == "httpGet":
        yield from names.check_choice(action.get("scheme", "HTTP"), f"{where}.scheme", SCHEMES)
        for header in action.get("httpHeaders", ()):
            if not _HEADER.fullmatch(header.get("name", "")):
                yield invalid(
                    f"{where}.httpHeaders",
                    header.get("name", ""),
                    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex "
                    "used for validation is '[-A-Za-z0-9]+')",
                )
