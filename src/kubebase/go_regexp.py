"""Regular expressions of API objects, with the syntax and the error messages of Go's ``regexp``.

kube-apiserver compiles the ``pattern`` of a schema with Go's ``regexp``, which implements the syntax of RE2. So does
the library google-re2, in time linear in the text and with a bound on its memory; Python's ``re`` reads the same text
differently (``$`` before a last newline, ``\\d`` beyond ASCII) and can take exponential time. This module translates
RE2's error messages into Go's and rejects the few expressions that RE2 accepts and Go does not.

Three differences remain: RE2 does not know the aliases of Unicode categories that Go has known since 1.25
(``\\p{Letter}``), it rejects an expression that would need more than ``MAX_MEMORY`` (``\\pL{1000}``), and it accepts
groups that nest deeper than 1000 levels.

The library takes about 3 MiB of memory, so the server loads it when it validates a pattern of a new definition, or
matches a text for the first time, and not at start.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

MAX_MEMORY: Final = 8 << 20
"""Bytes that RE2 may use for one compiled expression and for the states that it caches while it matches."""

_GO_FAULTS: Final[Mapping[str, str]] = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}
"""What Go calls the faults that RE2 calls otherwise."""

_TOKENS: Final = re.compile(
    r"""
      \\Q .*? (?: \\E | \Z )
    | (?P<byte> \\C )
    | \\ .
    | \[ \^? \]? (?: \[: \^? \w* :\] | \\ . | [^]\\] )* \]
    | \( \? P? < (?P<name> [^>]* ) >?
    | (?P<repeat> \{ [0-9]+ (?: , [0-9]* )? \} )
    """,
    re.DOTALL | re.VERBOSE,
)
"""The parts of an expression in which Go and RE2 differ, and those in which such a part would mean something else."""

_GROUP_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
_UNREADABLE_COUNT: Final = re.compile(r"[0-9]{9}")

MOST_REMEMBERED: Final = 4096
"""How many expressions ``check_syntax`` remembers that it has compiled."""

_known_valid: set[str] = set()
_compiled: set[str] = set()


class PatternError(ValueError):
    """The text is not a regular expression; the message is that of Go's ``regexp``."""

    def __init__(self, fault: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {fault}: `{part}`")


class Pattern:
    """A regular expression, compiled when it is first matched."""

    __slots__ = ("_regexp", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._regexp: Any = None

    def found_in(self, text: str) -> bool:
        """Whether the expression matches anywhere in a text."""
        if self._regexp is None:
            self._regexp = _compile(self._text)
        # Half a surrogate pair is a character to RE2 too, but Python does not encode it unless told to.
        return self._regexp.search(text.encode(errors="surrogatepass")) is not None


def check_syntax(pattern: str) -> None:
    """Raise a PatternError unless the text is a regular expression."""
    if pattern in _known_valid or pattern in _compiled:
        return
    _compile(pattern)
    if len(_compiled) >= MOST_REMEMBERED:
        _compiled.clear()
    _compiled.add(pattern)


def assume_valid(patterns: Iterable[str]) -> None:
    """Let ``check_syntax`` accept these without loading the library: they are known to compile."""
    _known_valid.update(patterns)


def patterns_of(openapi: object) -> Iterator[str]:
    """Every pattern in a schema, or in an object that holds schemas."""
    match openapi:
        case dict():
            if isinstance(pattern := openapi.get("pattern"), str):
                yield pattern
            for value in openapi.values():
                yield from patterns_of(value)
        case list():
            for value in openapi:
                yield from patterns_of(value)


def _compile(pattern: str) -> Any:
    import re2  # type: ignore[import-untyped] # google-re2 ships no types

    try:
        regexp = re2.compile(pattern, _options())
    except UnicodeEncodeError:
        raise PatternError("invalid UTF-8", pattern) from None
    except re2.error as error:
        raise _as_go_says(error.args[0].decode(), pattern) from None
    _check_differences(pattern)
    return regexp


@cache
def _options() -> Any:
    import re2

    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.never_capture = True  # groups are never read, and matching is quicker without them
    options.log_errors = False
    return options


def _as_go_says(message: str, pattern: str) -> PatternError:
    fault, _, part = message.partition(": ")
    if fault.startswith("pattern too large"):
        return PatternError("expression too large", pattern)
    if fault == "invalid UTF-8":  # said of an escape that ends with the expression: all of it was encoded here
        return PatternError("invalid escape sequence", r"\x{")
    if part in {"(?<=", "(?<!"}:  # Go takes a lookbehind for a group with a wrong name
        try:
            _check_differences(pattern)
        except PatternError as error:
            return error
    if fault == "invalid repetition size":
        part = part.removesuffix("?")
    return PatternError(_GO_FAULTS.get(fault, fault), part)


def _check_differences(pattern: str) -> None:
    """Reject what RE2 accepts and Go does not: ``\\C``, group names beyond ASCII, counts of nine digits and more."""
    for token in _TOKENS.finditer(pattern):
        if token["byte"]:
            raise PatternError("invalid escape sequence", token[0])
        if token["name"] is not None and not _GROUP_NAME.fullmatch(token["name"]):
            raise PatternError("invalid named capture", token[0])
        if token["repeat"] and _UNREADABLE_COUNT.search(token["repeat"]):
            raise PatternError("invalid repeat count", token["repeat"])
