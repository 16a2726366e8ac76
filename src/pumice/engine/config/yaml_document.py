"""The configuration file as YAML nodes that keep their line numbers.

The text is only composed into nodes, never constructed into objects: nodes keep the marks that let an error say
``file:12``. A ``Document`` then reads a node as the required type (a mapping, a list, text, true or false) and rejects
anything else. Where the versions of YAML disagree, plain values follow the parser that Volcano uses: dates and times of
day stay text.
"""

from __future__ import annotations

import json

import yaml

# libyaml's loader if PyYAML was built with it: the same nodes, only faster.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}

_DEEPEST = 50
"""Far more levels than any configuration has. Composing and reading recurse (libyaml's composer on the C stack, where
excessive depth is a crash), and an alias inside the very list it names would nest forever.
"""

_TOO_DEEP = f"nested more than {_DEEPEST} levels deep"

Entries = dict[str, tuple[yaml.Node, yaml.Node]]
"""A mapping's keys, each with its own node (for its line) and the node of its value."""


class ConfigError(ValueError):
    """An invalid configuration: where, and what would be valid."""

    def __init__(self, source: str, line: int, message: str) -> None:
        super().__init__(source, line, message)
        self.source = source
        self.line = line
        self.message = message

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.message}"


def line_of(node: yaml.Node) -> int:
    """The line on which a node starts, counted from 1."""
    return int(node.start_mark.line) + 1


class Document:
    """One YAML text and the name by which errors refer to it."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.root = self._compose(text)
        self._values: dict[int, object] = {}

    def refuse(self, node: yaml.Node | None, message: str) -> ConfigError:
        """The error for a problem at a node (None: with the text as a whole)."""
        return ConfigError(self.source, 1 if node is None else line_of(node), message)

    def mapping(self, node: yaml.Node | None, what: str) -> Entries:
        """The entries of a mapping in the order of the file; null counts as an empty mapping."""
        if node is None or _is_null(node):
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise self.refuse(node, f"{what} must be a mapping (key: value), not {_shown(node)}")
        entries: Entries = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.refuse(key, f"a key of {what} must be text, not {_shown(key)}")
            if key.tag.endswith(":merge"):
                raise self.refuse(key, f'"<<" is not read in {what}: write the keys out')
            if key.value in entries:
                first = line_of(entries[key.value][0])
                raise self.refuse(key, f'{what} already has "{key.value}" on line {first}: keep one')
            entries[key.value] = (key, value)
        return entries

    def sequence(self, node: yaml.Node | None, what: str) -> list[yaml.Node]:
        """The nodes of a list; null counts as an empty list."""
        if node is None or _is_null(node):
            return []
        if not isinstance(node, yaml.SequenceNode):
            raise self.refuse(node, f"{what} must be a list (- ...), not {_shown(node)}")
        return list(node.value)

    def text(self, node: yaml.Node, what: str) -> str:
        """Text, without surrounding blanks."""
        value = self.value(node)
        if not isinstance(value, str):
            raise self.refuse(node, f"{what} must be text, not {_shown(node)}")
        return value.strip()

    def boolean(self, node: yaml.Node, what: str) -> bool:
        """True or false, unquoted."""
        value = self.value(node)
        if isinstance(value, bool):
            return value
        quoted = isinstance(value, str) and value.lower() in _BOOLEANS
        hint = ": leave the quotes out" if quoted else ""
        raise self.refuse(node, f"{what} must be true or false, not {_shown(node)}{hint}")

    def value(self, node: yaml.Node, depth: int = 0) -> object:
        """The value of any node, as plain text, numbers, booleans, lists and dictionaries."""
        if id(node) in self._values:  # an alias is the same node as its anchor: built once, shared
            return self._values[id(node)]
        if depth > _DEEPEST:
            raise self.refuse(node, _TOO_DEEP)
        value: object
        if isinstance(node, yaml.MappingNode):
            entries = self.mapping(node, "the mapping")
            value = {key: self.value(child, depth + 1) for key, (_, child) in entries.items()}
        elif isinstance(node, yaml.SequenceNode):
            value = [self.value(child, depth + 1) for child in node.value]
        else:
            value = self._scalar(node)
        self._values[id(node)] = value
        return value

    def _scalar(self, node: yaml.Node) -> object:
        prefix, _, kind = node.tag.rpartition(":")
        if prefix != "tag:yaml.org,2002":
            raise self.refuse(node, f"the tag {node.tag} means nothing here: write the value out")
        match kind:
            case "null":
                return None
            case "bool":
                return _BOOLEANS.get(node.value.lower())
            case "int" | "float":
                return _number(node.value, kind)
        return node.value

    def _compose(self, text: str) -> yaml.Node | None:
        unprintable = yaml.reader.Reader.NON_PRINTABLE.search(text)
        if unprintable:
            line = text.count("\n", 0, unprintable.start()) + 1
            code = ord(unprintable.group())
            raise ConfigError(self.source, line, f"not valid YAML: the character U+{code:04X} is not allowed")
        try:
            self._check_depth(text)
            root: yaml.Node | None = yaml.compose(text, Loader=_LOADER)
        except yaml.MarkedYAMLError as error:
            raise self._malformed(text, error) from None
        return root

    def _check_depth(self, text: str) -> None:
        depth = 0
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > _DEEPEST:
                    line = event.start_mark.line + 1 if event.start_mark else 1
                    raise ConfigError(self.source, line, _TOO_DEEP)
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1

    def _malformed(self, text: str, error: yaml.MarkedYAMLError) -> ConfigError:
        mark = error.problem_mark or error.context_mark
        at = mark.line if mark else 0
        message = f"not valid YAML: {error.problem or error.context}"
        lines = text.splitlines()
        if at < len(lines) and "\t" in lines[at][: len(lines[at]) - len(lines[at].lstrip())]:
            message += "; indent with spaces, not tabs"
        return ConfigError(self.source, at + 1, message)


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")


def _number(text: str, kind: str) -> int | float | str:
    digits = text.replace("_", "")
    try:
        if kind == "float":
            return float(digits)
        unsigned = digits.lstrip("+-")
        octal = len(unsigned) > 1 and unsigned.isdecimal() and unsigned[0] == "0"
        return int(digits, 8 if octal else 0)
    except ValueError:
        return text  # 10:30 is a time of day here, not a number to the base 60; .inf is no amount


def _shown(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if _is_null(node):
        return "empty"
    is_text = node.tag.endswith(":str")
    return json.dumps(node.value, ensure_ascii=False) if is_text else str(node.value)
