"""The ``format`` keyword of strings and numbers.

Formats that are not listed here are ignored, as in kube-apiserver; ``quantity`` is an extension, for the amounts of
resources in the built-in kinds.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import uuid
from collections.abc import Callable
from datetime import date, datetime
from typing import Final
from urllib.parse import urlsplit

from kubebase.quantity import QuantityError, parse
from kubebase.text_cache import cached_by_text

Test = Callable[[str], bool]

WHOLE: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
"""The smallest and the largest number of an integer format."""

LARGEST_FLOAT: Final = 3.4028234663852886e38

QUANTITY_RULE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:[.,]\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_SPANS = re.compile(
    r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)\s*"
    r"(?:nanos?|micros?|millis?|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|ns|us|µs|μs|ms|s|m|h|d|w)\s*",
    re.ASCII | re.IGNORECASE,
)
_ISO_SPAN = re.compile(r"P(?=\d|T\d)(\d+[YMWD])*(T(\d+[HMS])+)?", re.ASCII)
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_HOST_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?")
_MAC = re.compile(
    r"[0-9a-f]{2}([:-])[0-9a-f]{2}(\1[0-9a-f]{2}){4}((\1[0-9a-f]{2}){2})?|([0-9a-f]{4}\.){2,3}[0-9a-f]{4}",
    re.IGNORECASE,
)
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_BAD_IN_URI = re.compile(r"[\x00-\x20\x7f]|%(?![0-9A-Fa-f]{2})")


def is_quantity(value: str | float) -> bool:
    """Whether a text or a number is an amount of a resource."""
    try:
        parse(value)
    except QuantityError:
        return False
    return True


@cached_by_text()  # the timestamps of objects written together are equal
def _is_time(text: str) -> bool:
    # With its offset, so that clients can parse an accepted time.
    return _TIME.fullmatch(text) is not None and _reads(lambda: datetime.fromisoformat(text.upper()).timestamp())


def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and _reads(lambda: date.fromisoformat(text))


def _is_duration(text: str) -> bool:
    if text == "0" or _ISO_SPAN.fullmatch(text):
        return True
    at = 0
    while at < len(text):
        span = _SPANS.match(text, at)
        if not span:
            return False
        at = span.end()
    return bool(text)


def _is_base64(text: str) -> bool:
    try:
        return bool(text) and bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False


def _is_uuid(version: str = "") -> Test:
    def test(text: str) -> bool:
        return _UUID.fullmatch(text) is not None and version in {"", str(uuid.UUID(text).version)}

    return test


def _is_ipv4(text: str) -> bool:
    # kube-apiserver reads leading zeros, which the library takes for a mistake.
    parts = text.split(".")
    return len(parts) == 4 and all(re.fullmatch(r"[0-9]{1,3}", part) and int(part) < 256 for part in parts)


def _is_ipv6(text: str) -> bool:
    return "%" not in text and _reads(lambda: ipaddress.IPv6Address(text))


def _is_cidr(text: str) -> bool:
    return "/" in text and "%" not in text and _reads(lambda: ipaddress.ip_interface(text))


def _is_hostname(text: str) -> bool:
    # A single label passes; the last of several must have two letters or more.
    if len(text) > 255 or not all(len(label) < 64 and _HOST_LABEL.fullmatch(label) for label in text.split(".")):
        return False
    last = text.rpartition(".")[2]
    return "." not in text or (len(last) > 1 and not last.isdecimal())


def _is_uri(text: str) -> bool:
    """A reference with a scheme, or a path from the root."""
    if not (text.startswith("/") or _SCHEME.match(text)) or _BAD_IN_URI.search(text):
        return False
    return _reads(lambda: urlsplit(text).port)


def _is_email(text: str) -> bool:
    from email.utils import parseaddr

    local, at, domain = parseaddr(text)[1].rpartition("@")
    return bool(at and local and domain)


def _reads(read: Callable[[], object]) -> bool:
    try:
        read()
    except ValueError:
        return False
    return True


TEXTS: Final[dict[str, Test]] = {
    "bsonobjectid": lambda text: re.fullmatch(r"[0-9A-Fa-f]{24}", text) is not None,
    "byte": _is_base64,
    "cidr": _is_cidr,
    "date": _is_date,
    "date-time": _is_time,
    "datetime": _is_time,
    "duration": _is_duration,
    "email": _is_email,
    "hexcolor": lambda text: re.fullmatch(r"#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})", text) is not None,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "k8s-long-name": lambda text: len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None,
    "k8s-short-name": lambda text: len(text) <= 63 and _LABEL.fullmatch(text) is not None,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uri": _is_uri,
    "uuid": _is_uuid(),
    "uuid3": _is_uuid("3"),
    "uuid4": _is_uuid("4"),
    "uuid5": _is_uuid("5"),
}
"""What texts must be, by format."""
