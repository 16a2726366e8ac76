"""How long the command of a simulated container runs and how it exits, for commands whose effect is known.

Known are ``sleep``, ``exit``, ``true``, ``false``, ``:`` and ``echo``, alone or in a script of ``sh -c``, joined by
``&&``, ``||``, ``;`` or newlines: manifests in examples and tests of other projects describe their containers with
``sleep 10 && exit 3``. A program that the node lists as missing exits with 127, as if no image had it. A command that
contains anything else has no known effect: nothing is executed here, so its container runs until it is stopped.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

NOT_FOUND = 127
SHELLS = frozenset({"sh", "ash", "bash", "dash"})
MAX_SECONDS = 1e9

_DURATION = re.compile(r"(?P<number>[0-9]{1,10}(\.[0-9]{1,9})?)(?P<unit>[smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_JOINTS = frozenset({";", "&&", "||"})


@dataclass(frozen=True, slots=True)
class CommandRun:
    """How long a command runs, and its exit code."""

    seconds: float
    exit_code: int


class _UnknownEffectError(Exception):
    """The command contains a part whose effect is unknown."""


@lru_cache(maxsize=4096)
def command_run(words: tuple[str, ...], missing_programs: frozenset[str] = frozenset()) -> CommandRun | None:
    """The run of a container with this command line; None if it runs until it is stopped."""
    if not words:
        return None
    program, rest = PurePosixPath(words[0]).name, words[1:]
    try:
        if program not in SHELLS:
            return _run([("", list(words))], missing_programs)
        if len(rest) >= 2 and rest[0] == "-c":
            return _run(_parse(rest[1]), missing_programs)
    except _UnknownEffectError:
        return None
    return CommandRun(0.0, NOT_FOUND) if rest and rest[0] in missing_programs else None


def _parse(script: str) -> Iterator[tuple[str, list[str]]]:
    """The simple commands of a script, each with the operator before it."""
    lexer = shlex.shlex(script.replace("\n", ";"), posix=True, punctuation_chars=";&|<>()")
    lexer.whitespace_split = True
    joint, words = ";", list[str]()
    try:
        for token in lexer:
            if not set(token) <= set(";&|<>()"):
                words.append(token)
                continue
            if words:
                yield joint, words
                joint, words = ";", []
            joint = token.strip(";") or ";"
            if joint not in _JOINTS:
                raise _UnknownEffectError
    except ValueError as error:  # a quotation without an end
        raise _UnknownEffectError from error
    if words:
        yield joint, words


def _run(commands: Iterable[tuple[str, list[str]]], missing: frozenset[str]) -> CommandRun:
    seconds, status = 0.0, 0
    for joint, words in commands:
        if (joint == "&&" and status) or (joint == "||" and not status):
            continue
        program, arguments = words[0], words[1:]
        match program:
            case "sleep" if arguments:
                seconds, status = seconds + sum(map(_duration, arguments)), 0
            case "exit":
                return CommandRun(seconds, _exit_code(arguments, status))
            case "true" | ":" | "echo":
                if any("`" in word or "$(" in word for word in arguments):
                    raise _UnknownEffectError
                status = 0
            case "false":
                status = 1
            case _ if program in missing or (program in SHELLS and arguments[:1] and arguments[0] in missing):
                status = NOT_FOUND
            case _:
                raise _UnknownEffectError
    return CommandRun(min(seconds, MAX_SECONDS), status)


def _duration(word: str) -> float:
    match = _DURATION.fullmatch(word)
    if match is None:
        raise _UnknownEffectError
    return float(match["number"]) * _SECONDS[match["unit"]]


def _exit_code(arguments: Sequence[str], status: int) -> int:
    if not arguments:
        return status
    if not re.fullmatch(r"[0-9]{1,10}", arguments[0]):
        raise _UnknownEffectError
    return int(arguments[0]) % 256
