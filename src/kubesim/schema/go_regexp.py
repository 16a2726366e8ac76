"""Regular expressions in the syntax of Go's ``regexp``: what a pattern in a schema means.

Python's own expressions read many of these patterns differently (``$`` before a last newline, ``\\d`` beyond ASCII)
and can take exponential time, with which anybody who may write a definition could stop the server. So a pattern is
parsed here, with the refusals the real server words the same way, and matched by ``nfa`` in linear time.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable

from kubesim.schema.nfa import Automaton, Fragment, any_of, character, empty, position, repeated, sequence

MOST_REPEATS = 1000
DEEPEST_GROUP = 50
LARGEST = 20_000  # steps of the automaton

Test = Callable[[str], bool]

_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_PERL: dict[str, Test] = {
    "d": lambda c: "0" <= c <= "9",
    "s": lambda c: c in "\t\n\f\r ",
    "w": lambda c: c == "_" or (c.isascii() and c.isalnum()),
}
_POSIX: dict[str, Test] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "ascii": str.isascii,
    "blank": lambda c: c in "\t ",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": lambda c: "0" <= c <= "9",
    "graph": lambda c: "!" <= c <= "~",
    "lower": lambda c: "a" <= c <= "z",
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": lambda c: c in "\t\n\v\f\r ",
    "upper": lambda c: "A" <= c <= "Z",
    "word": _PERL["w"],
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}
_CATEGORY = re.compile(r"L[ulmto]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cf]?")
_REPEAT = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
_FLAGS = re.compile(r"\(\?([imsU]*)(-[imsU]+)?([:)])")
_NAMED = re.compile(r"\(\?P?<([^>]*)>")


class PatternError(ValueError):
    """The text is not a regular expression, in the words of the real server."""

    def __init__(self, fault: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {fault}: `{part}`")


def compiled(pattern: str) -> Automaton:
    """A pattern, ready to look for it anywhere in a text."""
    parser = _Parser(pattern)
    fragment = parser.alternatives(0)
    if not parser.done:
        raise PatternError("unexpected )", pattern)
    return Automaton(fragment)


class _Parser:
    """Reads one pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._flags: frozenset[str] = frozenset()

    @property
    def done(self) -> bool:
        return self._at >= len(self._text)

    def alternatives(self, depth: int) -> Fragment:
        """``a|b|c``, up to the end or a closing parenthesis."""
        if depth > DEEPEST_GROUP:
            raise PatternError("expression nests too deeply", self._text)
        before = self._flags
        choices = [self._sequence(depth)]
        while self._took("|"):
            choices.append(self._sequence(depth))
        self._flags = before
        return any_of(choices) if len(choices) > 1 else choices[0]

    def _sequence(self, depth: int) -> Fragment:
        parts: list[Fragment] = []
        while not self.done and self._text[self._at] not in "|)":
            start = self._at
            part = self._atom(depth)
            parts.append(self._repeats(part, start))
        whole = sequence(parts)
        if len(whole) > LARGEST:
            raise PatternError("expression too large", self._text)
        return whole

    def _atom(self, depth: int) -> Fragment:
        text, start = self._text, self._at
        self._at += 1
        match text[start]:
            case "(":
                return self._group(start, depth)
            case "[":
                return character(self._class(start))
            case ".":
                return character(bool if "s" in self._flags else _no_newline)
            case "^":
                return position("line start" if "m" in self._flags else "start")
            case "$":
                return position("line end" if "m" in self._flags else "end")
            case "*" | "+" | "?" as operator:
                raise PatternError("missing argument to repetition operator", operator)
            case "\\":
                return self._escape(start)
            case letter:
                if letter == "{" and (found := _REPEAT.match(text, start)):
                    raise PatternError("missing argument to repetition operator", found[0])
                return character(self._literal(letter))

    def _repeats(self, part: Fragment, start: int) -> Fragment:
        operator = self._operator()
        if not operator:
            return part
        text, at = self._text, self._at - len(operator)
        self._took("?")  # lazy or not finds the same texts
        after = self._at
        if following := self._operator():
            raise PatternError("invalid nested repetition operator", text[at:after] + following)
        low, high = _bounds(operator)
        if max(low, high or 0) > MOST_REPEATS or (high is not None and low > high):
            raise PatternError("invalid repeat count", operator)
        if len(part) * max(low, high or 0) > LARGEST:
            raise PatternError("expression too large", text[start:after])
        return repeated(part, low, high)

    def _operator(self) -> str:
        """A repetition operator that comes next, or nothing. A brace that is none is a letter."""
        if self.done:
            return ""
        if self._text[self._at] in "*+?":
            self._at += 1
            return self._text[self._at - 1]
        found = _REPEAT.match(self._text, self._at)
        if not found:
            return ""
        self._at = found.end()
        return found[0]

    def _group(self, start: int, depth: int) -> Fragment:
        text = self._text
        if text.startswith("(?", start):
            if text.startswith(("(?P<", "(?<"), start):
                named = _NAMED.match(text, start)
                if not named:
                    raise PatternError("invalid named capture", text[start:])
                if not re.fullmatch(r"[A-Za-z0-9_]+", named[1]):
                    raise PatternError("invalid named capture", named[0])
                self._at = named.end()
            elif flags := _FLAGS.match(text, start):
                self._at = flags.end()
                before = self._flags
                self._flags = (before | set(flags[1])) - set(flags[2] or "")
                if flags[3] == ")":  # until the end of the group around it
                    return empty()
                return self._closed(depth, before)
            else:
                raise PatternError("invalid or unsupported Perl syntax", text[start : start + 3])
        return self._closed(depth, self._flags)

    def _closed(self, depth: int, flags: frozenset[str]) -> Fragment:
        inside = self.alternatives(depth + 1)
        if not self._took(")"):
            raise PatternError("missing closing )", self._text)
        self._flags = flags
        return inside

    def _escape(self, start: int) -> Fragment:
        text = self._text
        if self.done:
            raise PatternError("trailing backslash at end of expression", "")
        letter = text[self._at]
        if letter in "AzbB":
            self._at += 1
            return position({"A": "start", "z": "end", "b": "word edge", "B": "no word edge"}[letter])
        if letter == "Q":
            quoted, found, _ = text[self._at + 1 :].partition("\\E")
            self._at += 1 + len(quoted) + len(found)
            return sequence([character(self._literal(each)) for each in quoted])
        return character(self._escaped(start))

    def _escaped(self, start: int) -> Test:
        """What stands for itself or for a kind of characters after a backslash, inside brackets or outside."""
        known = self._kind()
        return known or self._literal(self._escaped_letter(start))

    def _kind(self) -> Test | None:
        """``\\d``, ``\\pL``, ``\\p{Lu}`` and their opposites."""
        letter = self._text[self._at]
        test = _PERL.get(letter.lower())
        if test:
            self._at += 1
            return _opposite(test) if letter.isupper() else test
        if letter not in "pP":
            return None
        found = re.compile(r"\{(\^?)([A-Za-z_]+)\}|()([A-Z])").match(self._text, self._at + 1)
        name = (found[2] or found[4]) if found else ""
        if not found or not (_CATEGORY.fullmatch(name) or name == "Any"):
            shown = found[0] if found else ""
            raise PatternError("invalid character class range", f"\\{letter}{shown}")
        self._at = found.end()
        inside = bool if name == "Any" else _of_category(name)
        return _opposite(inside) if (letter == "P") != bool(found[1]) else inside

    def _escaped_letter(self, start: int) -> str:
        text, letter = self._text, self._text[self._at]
        self._at += 1
        if letter in _CONTROL:
            return _CONTROL[letter]
        if letter == "x" and (hexed := re.compile(r"([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,8})\}").match(text, self._at)):
            code = int(hexed[1] or hexed[2], 16)
            if code <= 0x10FFFF:
                self._at = hexed.end()
                return chr(code)
        if octal := re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}").match(text, self._at - 1):
            self._at = octal.end()
            return chr(int(octal[0], 8))
        if letter.isascii() and not letter.isalnum():
            return letter
        shown = re.compile(r"\\x(\{?[0-9A-Fa-f]*)|\\.", re.DOTALL).match(text, start)
        raise PatternError("invalid escape sequence", shown[0] if shown else text[start : self._at])

    def _class(self, start: int) -> Test:
        negated = self._took("^")
        tests: list[Test] = []
        first = True
        while first or not self._took("]"):
            if self.done:
                raise PatternError("missing closing ]", self._text[start:])
            tests.append(self._member())
            first = False
        inside = _one_of(tests)
        return _opposite(inside) if negated else inside

    def _member(self) -> Test:
        text, start = self._text, self._at
        if text.startswith("[:", start) and (end := text.find(":]", start + 2)) > 0:
            name = text[start + 2 : end]
            test = _POSIX.get(name.removeprefix("^"))
            if test is None:
                raise PatternError("invalid character class range", text[start : end + 2])
            self._at = end + 2
            return _opposite(test) if name.startswith("^") else test
        if text[start] == "\\" and start + 1 < len(text):
            self._at += 1
            if kind := self._kind():
                return kind
            self._at = start
        low = self._bound()
        if not (text.startswith("-", self._at) and not text.startswith("-]", self._at) and self._at + 1 < len(text)):
            return self._literal(low)
        self._at += 1
        high = self._bound()
        if high < low:
            raise PatternError("invalid character class range", text[start : self._at])
        return self._between(low, high)

    def _bound(self) -> str:
        start = self._at
        self._at += 1
        if self._text[start] != "\\":
            return self._text[start]
        if self.done:
            raise PatternError("trailing backslash at end of expression", "")
        return self._escaped_letter(start)

    def _literal(self, letter: str) -> Test:
        if "i" in self._flags:
            same = {letter, *_cases(letter)}
            return same.__contains__
        return letter.__eq__

    def _between(self, low: str, high: str) -> Test:
        if "i" in self._flags:
            return lambda c: low <= c <= high or any(low <= other <= high for other in _cases(c))
        return lambda c: low <= c <= high

    def _took(self, letter: str) -> bool:
        if self._text.startswith(letter, self._at):
            self._at += 1
            return True
        return False


def _bounds(operator: str) -> tuple[int, int | None]:
    match operator:
        case "*":
            return 0, None
        case "+":
            return 1, None
        case "?":
            return 0, 1
    found = _REPEAT.fullmatch(operator)
    assert found, operator
    # Longer numbers are too large anyway, and Python refuses to read very long ones.
    low = int(found[1][:9])
    return low, (low if not found[2] else int(found[3][:9]) if found[3] else None)


def _cases(letter: str) -> Iterable[str]:
    return [other for other in (letter.lower(), letter.upper()) if len(other) == 1]


def _no_newline(letter: str) -> bool:
    return letter != "\n"


def _opposite(test: Test) -> Test:
    return lambda letter: not test(letter)


def _one_of(tests: list[Test]) -> Test:
    return lambda letter: any(test(letter) for test in tests)


def _of_category(name: str) -> Test:
    return lambda letter: unicodedata.category(letter).startswith(name)
