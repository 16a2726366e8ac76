"""Validation of names inside a pod's spec: containers, ports, variables, keys, nodes. Most are DNS names."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from socket import AF_INET, inet_pton
from typing import Final

from kubebase.text_cache import cached_by_text
from kubesim.api.field_errors import FieldProblem, invalid, required, unsupported
from kubesim.api.metadata import LABEL_RULE, SUBDOMAIN_RULE

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_SEARCH: Final = re.compile(r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*")
_PORT_LETTERS: Final = re.compile(r"[-a-z0-9]+")
_VARIABLE: Final = re.compile(r"[ -<>-~]+")
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")

SEARCH_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    rf"'{_SEARCH.pattern}')"
)
VARIABLE_RULE: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
ADDRESS_RULE: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def check_label(name: str, field: str) -> Iterator[FieldProblem]:
    """A DNS label, as containers and volumes are named."""
    if not _LABEL.fullmatch(name):
        if len(name) > 63:
            yield invalid(field, name, "must be no more than 63 characters")
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name):
            yield invalid(field, name, LABEL_RULE)


def check_subdomain(name: str, field: str) -> Iterator[FieldProblem]:
    """A DNS name, as nodes and most objects are named."""
    if not _SUBDOMAIN.fullmatch(name):
        if len(name) > 253:
            yield invalid(field, name, "must be no more than 253 characters")
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name):
            yield invalid(field, name, SUBDOMAIN_RULE)


def check_search(name: str, field: str) -> Iterator[FieldProblem]:
    """A domain to search, where underscores are allowed."""
    if not _SEARCH.fullmatch(name.removesuffix(".")):
        yield invalid(field, name, SEARCH_RULE)


def check_port_name(name: str, field: str) -> Iterator[FieldProblem]:
    """The name of a port."""
    if len(name) > 15:
        yield invalid(field, name, "must be no more than 15 characters")
    if not _PORT_LETTERS.fullmatch(name):
        yield invalid(field, name, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", name):
        yield invalid(field, name, "must contain at least one letter (a-z)")
    if "--" in name:
        yield invalid(field, name, "must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        yield invalid(field, name, "must not begin or end with a hyphen")


def check_port(port: int | str, field: str) -> Iterator[FieldProblem]:
    """A port by number or by name."""
    if isinstance(port, str):
        yield from check_port_name(port, field)
    elif not 1 <= port <= 65535:
        yield invalid(field, port, "must be between 1 and 65535, inclusive")


def check_variable(name: str, field: str) -> Iterator[FieldProblem]:
    """The name of an environment variable."""
    if not _VARIABLE.fullmatch(name):
        yield invalid(field, name, VARIABLE_RULE)


def check_key(key: str, field: str) -> Iterator[FieldProblem]:
    """A key of a ConfigMap or Secret."""
    if len(key) > 253:
        yield invalid(field, key, "must be no more than 253 characters")
    if not _KEY.fullmatch(key):
        yield invalid(field, key, KEY_RULE)
    elif key in {".", ".."}:
        yield invalid(field, key, f"must not be '{key}'")
    elif key.startswith(".."):
        yield invalid(field, key, "must not start with '..'")


def check_address(text: str, field: str) -> Iterator[FieldProblem]:
    """An IP address."""
    if version(text) is None:
        yield invalid(field, text, ADDRESS_RULE)


@cached_by_text()  # a pod's address is checked with each of its status updates
def version(text: str) -> int | None:
    """4 or 6, or None if the text is no IP address."""
    with suppress(OSError, ValueError):  # most are of this kind, and the module takes ten times as long
        inet_pton(AF_INET, text)
        return 4
    try:
        return ipaddress.ip_address(text).version
    except ValueError:
        return None


def check_choice(value: str, field: str, choices: Iterable[str]) -> Iterator[FieldProblem]:
    """One of a few words."""
    if value not in choices:
        yield unsupported(field, value, choices)


def check_relative(path: str, field: str) -> Iterator[FieldProblem]:
    """Check a relative path without steps up."""
    if path.startswith("/"):
        yield invalid(field, path, "must be a relative path")
    yield from check_no_backsteps(path, field)


def check_no_backsteps(path: str, field: str) -> Iterator[FieldProblem]:
    """Check a path without steps up."""
    if ".." in path.split("/"):
        yield invalid(field, path, "must not contain '..'")


def check_present(found: dict[str, object], field: str, *names: str) -> Iterator[FieldProblem]:
    """Texts that may not be missing or empty."""
    for name in names:
        if not found.get(name):
            yield required(f"{field}.{name}")
