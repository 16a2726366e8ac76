"""Finding a regular expression in a text, in time proportional to the text.

A pattern becomes a program of steps, put together from fragments: take a character that passes a test, go on at two
places at once, go on only at a certain position. The program runs at all its places in parallel, one character of
the text after the other, so there is nothing to go back to. Which places follow from which on what character is
remembered, so that a pattern that is used often costs a dictionary lookup per character.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Test = Callable[[str], bool]

MOST_REMEMBERED = 4096

START, END = "\x00start", "\x00end"  # what stands before the first and after the last character


@dataclass(frozen=True, slots=True)
class Take:
    """Go on if the next character passes."""

    test: Test


@dataclass(frozen=True, slots=True)
class Fork:
    """Go on here (offsets from this step) and there."""

    one: int
    other: int


@dataclass(frozen=True, slots=True)
class Stand:
    """Go on if this is such a position."""

    where: str


Step = Take | Fork | Stand
Fragment = tuple[Step, ...]
"""Part of a program. It is entered at its first step and left behind its last."""


def empty() -> Fragment:
    """Nothing, which is found everywhere."""
    return ()


def character(test: Test) -> Fragment:
    """One character that passes the test."""
    return (Take(test),)


def position(where: str) -> Fragment:
    """No character, but a position."""
    return (Stand(where),)


def sequence(parts: Sequence[Fragment]) -> Fragment:
    """One after the other."""
    return tuple(step for part in parts for step in part)


def any_of(choices: Sequence[Fragment]) -> Fragment:
    """One of several."""
    joined = choices[-1]
    for choice in reversed(choices[:-1]):
        beyond = len(choice) + 2
        joined = (Fork(1, beyond), *choice, Fork(len(joined) + 1, len(joined) + 1), *joined)
    return joined


def repeated(part: Fragment, low: int, high: int | None) -> Fragment:
    """From ``low`` to ``high`` times; None is any number of times."""
    must = part * low
    if high is None:
        return (*must, Fork(1, len(part) + 2), *part, Fork(-len(part), 1))
    one = len(part) + 1
    may = [step for left in range(high - low, 0, -1) for step in (Fork(1, left * one), *part)]
    return (*must, *may)


class Automaton:
    """A program with the places it can be at."""

    def __init__(self, program: Fragment) -> None:
        self._program = program
        # Positions other than the two ends of the text make it matter which character came before.
        self._looks_back = any(isinstance(step, Stand) and step.where not in {"start", "end"} for step in program)
        self._places: dict[frozenset[int], frozenset[int]] = {}
        self._remembered: dict[tuple[frozenset[int], str, str], frozenset[int] | None] = {}

    def found_in(self, text: str) -> bool:
        """Whether the pattern is somewhere in the text."""
        places = self._same(frozenset((0,)))
        before = START
        for letter in text:
            after = self._after(places, before, letter)
            if after is None:
                return True
            places = after
            before = letter if self._looks_back else ""
        return self._after(places, before, END) is None

    def _after(self, places: frozenset[int], before: str, letter: str) -> frozenset[int] | None:
        """Where the program is after a character, or None if it has come to its end before it."""
        key = (places, before, letter)
        try:
            return self._remembered[key]
        except KeyError:
            pass
        if len(self._remembered) >= MOST_REMEMBERED:
            self._remembered.clear()
            self._places.clear()
        after = self._remembered[key] = self._computed(places, before, letter)
        return after

    def _computed(self, places: frozenset[int], before: str, letter: str) -> frozenset[int] | None:
        program, end = self._program, len(self._program)
        seen: set[int] = set()
        todo = list(places)
        after = {0}  # the pattern may begin at any character
        while todo:
            place = todo.pop()
            if place in seen:
                continue
            seen.add(place)
            if place == end:
                return None
            match program[place]:
                case Take(test):
                    if letter != END and test(letter):
                        after.add(place + 1)
                case Fork(one, other):
                    todo += (place + one, place + other)
                case Stand(where):
                    if _stands(where, before, letter):
                        todo.append(place + 1)
        return self._same(frozenset(after))

    def _same(self, places: frozenset[int]) -> frozenset[int]:
        # One object for equal sets: then finding it again compares by identity.
        return self._places.setdefault(places, places)


def _stands(where: str, before: str, letter: str) -> bool:
    match where:
        case "start":
            return before == START
        case "end":
            return letter == END
        case "line start":
            return before in {START, "\n"}
        case "line end":
            return letter in {END, "\n"}
        case "word edge":
            return _in_word(before) != _in_word(letter)
    return _in_word(before) == _in_word(letter)


def _in_word(letter: str) -> bool:
    return len(letter) == 1 and (letter == "_" or (letter.isascii() and letter.isalnum()))
