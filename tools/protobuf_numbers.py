"""Writes the numbers of protobuf fields from the published types of Kubernetes.

python -m tools.protobuf_numbers

Clients of Kubernetes in Go send built-in kinds in protobuf. ``kubesim.protobuf`` reads such bodies by the
shapes of those kinds, which name the fields but do not number them. This tool reads the numbers from the
``generated.proto`` files of the Go modules k8s.io/api and k8s.io/apimachinery, and from the Go types beside them what
protobuf does not say: the name of a field in JSON, whether JSON shows its zero, and whether it shows the fields in it
in its place. Go fetches and verifies the modules, in the release of the Kubernetes that ``kubernetes_binaries`` names.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kubesim.kinds import schema_dsl
from kubesim.protobuf.messages import KINDS, SHAPES
from tools.kubernetes_binaries import KUBERNETES, NOT_AVAILABLE, go

TARGET: Final = Path(__file__).parents[1] / "src" / "kubesim" / "protobuf" / "field_numbers.py"
RELEASE: Final = f"v0.{KUBERNETES.partition('.')[2]}"
MODULES: Final = ("k8s.io/api", "k8s.io/apimachinery")
META: Final = "k8s.io.apimachinery.pkg.apis.meta.v1"

ENVELOPE_FIELDS: Final = frozenset({"apiVersion", "kind"})
"""The envelope of a body has these, and messages have not."""
UNREAD_SHAPES: Final = frozenset({"ManagedFieldsEntry"})
"""The server keeps none of these."""
HAVE_ZEROS: Final = frozenset({"bool", "int32", "int64", "text"})
"""Types with a zero that a client sends in protobuf even if the field is not set."""
WIRE_TYPES: Final[Mapping[str, frozenset[str]]] = {
    "text": frozenset({"string", "bytes"}),
    "bool": frozenset({"bool"}),
    "int32": frozenset({"int32"}),
    "int64": frozenset({"int64"}),
    "quantity": frozenset({"k8s.io.apimachinery.pkg.api.resource.Quantity"}),
    "int-or-text": frozenset({"k8s.io.apimachinery.pkg.util.intstr.IntOrString"}),
    "time": frozenset({f"{META}.Time", f"{META}.MicroTime"}),
}
"""The types of protobuf in which the wire may hold a type of the notation."""
OVERRULED: Final[Mapping[str, str]] = {"bytes": "bytes", f"{META}.MicroTime": "micro"}
"""What the notation does not tell apart, in the words of ``field_numbers``."""

HEADER: Final = '''"""The numbers by which protobuf knows the fields that the shapes of ``kinds`` know by name.

``python -m tools.protobuf_numbers`` made this file from {modules} {release}: do not edit it.
A shape is a name on a line of its own, then its fields::

    VolumeMount
      name=1 readOnly=2 mountPath=3 mountPropagation=5*

``2.19`` is field 19 of a message 2 that has no name in JSON: there its fields stand beside the others. ``*`` is a
field of which JSON shows the zero, because it is only sent if it is set or because JSON never leaves it out; zeros of
the others are left out unless the shape requires the field. After ``:`` comes what the wire holds, where it is not what
the shape says: ``micro`` (a time in microseconds), ``bytes`` (of which JSON has the base64) or ``nothing`` that the
server keeps.
"""

from typing import Final

NUMBERS: Final = """
'''

_PACKAGE = re.compile(r"^package ([\w.]+);", re.MULTILINE)
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_MESSAGE_FIELD = re.compile(
    r"^  (?:optional |repeated )?(?:map<string, (?P<value>[\w.]+)>|(?P<type>[\w.]+)) \w+ = (?P<number>\d+);",
    re.MULTILINE,
)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_STRUCT_FIELD = re.compile(
    r"^\t(?:\w+\s+)?(?P<type>\S+)\s+`"
    r"(?=[^`]*json:\"(?P<json>[^\",]*)(?P<options>[^\"]*))"
    r"[^`]*protobuf:\"\w+,(?P<number>\d+),",
    re.MULTILINE,
)


class MismatchError(ValueError):
    """The shapes and the types of Kubernetes contradict each other."""


@dataclass(frozen=True, slots=True)
class MessageField:
    """A field of a message: its number and the type of its value, or of the values in it."""

    number: int
    type: str
    keeps_zero: bool
    """Whether JSON of the same client would show a zero: the field is a pointer, or is never left out."""


@dataclass(slots=True)
class Message:
    """The fields of a message by their names in JSON, and the messages that JSON shows in place of a field."""

    fields: dict[str, MessageField] = field(default_factory=dict)
    inline: list[MessageField] = field(default_factory=list)


def download() -> list[Path]:
    """The folders of the modules, in Go's module cache. ``RuntimeError`` if Go cannot get them."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = [f"{module}@{RELEASE}" for module in MODULES]
        go(Path(folder), "mod", "download", *wanted)  # which, other than with -json, says why it fails
        output = go(Path(folder), "mod", "download", "-json", *wanted)
    decoder, folders = json.JSONDecoder(), []
    while output := output.lstrip():
        described, end = decoder.raw_decode(output)
        folders.append(Path(described["Dir"]))
        output = output[end:]
    return folders


def messages(folders: list[Path]) -> dict[str, Message]:
    """All messages that the modules define, by their full names."""
    found: dict[str, Message] = {}
    for folder in folders:
        for file in sorted(folder.rglob("generated.proto")):
            proto = file.read_text(encoding="utf-8")
            if package := _PACKAGE.search(proto):
                structs = _structs(file.parent)
                for name, body in _MESSAGE.findall(proto):
                    found[f"{package[1]}.{name}"] = _message(body, package[1], structs.get(name, ""))
    return found


def _structs(package: Path) -> dict[str, str]:
    """The bodies of the structs in a package, by name."""
    sources = (file.read_text(encoding="utf-8") for file in sorted(package.glob("*types*.go")))
    return {name: body for source in sources for name, body in _STRUCT.findall(source)}


def _message(body: str, package: str, struct: str) -> Message:
    types = {int(each["number"]): each["value"] or each["type"] for each in _MESSAGE_FIELD.finditer(body)}
    message = Message()
    for declared in _STRUCT_FIELD.finditer(struct):
        number = int(declared["number"])
        kind = types[number].lstrip(".")
        qualified = f"{package}.{kind}" if kind[0].isupper() else kind
        keeps_zero = declared["type"].startswith("*") or "omit" not in declared["options"]
        described = MessageField(number, qualified, keeps_zero)
        if declared["json"]:
            message.fields[declared["json"]] = described
        else:
            message.inline.append(described)
    return message


class Numbering:
    """Walks the shapes and their messages, and records the numbers of their fields."""

    def __init__(self, known: Mapping[str, Message], shapes: Mapping[str, list[str]]) -> None:
        self._known = known
        self._shapes = shapes
        self._seen: set[tuple[str, str]] = set()
        self.entries: dict[str, dict[str, str]] = {}
        """The entries of the fields of each shape, in the order of their numbers."""

    def visit(self, shape: str, message: str) -> None:
        """Number the fields of a shape by its message, and those of the shapes in it."""
        if (shape, message) in self._seen:
            return
        self._seen.add((shape, message))
        numbered: list[tuple[tuple[int, ...], str, str]] = []
        for line in self._shapes[shape]:
            marked, kind, *_ = line.split()
            name = marked.removesuffix("!")
            path = self._path(message, name)
            if path is None:
                if name in ENVELOPE_FIELDS:
                    continue
                raise MismatchError(f"{message} has no field {name}, which the shape {shape} has")
            numbers = tuple(step.number for step in path)
            keeps_zero = kind in HAVE_ZEROS and path[-1].keeps_zero and not marked.endswith("!")
            numbered.append((numbers, name, _entry(numbers, kind, path[-1].type, keeps_zero)))
            self._visit_value(f"{shape}.{name}", kind, path[-1].type)
        entries = {name: entry for _, name, entry in sorted(numbered)}
        if self.entries.setdefault(shape, entries) != entries:
            raise MismatchError(f"the shape {shape} stands for {message} and for one with other numbers")

    def _path(self, message: str, name: str) -> list[MessageField] | None:
        """The fields that lead to one: itself, or a message that JSON does not show and then itself."""
        known = self._known[message]
        if name in known.fields:
            return [known.fields[name]]
        for outer in known.inline:
            if inner := self._known[outer.type].fields.get(name):
                return [outer, inner]
        return None

    def _visit_value(self, where: str, kind: str, wire_type: str) -> None:
        inside = kind.strip("[]{}")
        if inside in self._shapes:
            if inside not in UNREAD_SHAPES:
                self.visit(inside, wire_type)
        elif inside != "any" and not kind.startswith("{[") and wire_type not in WIRE_TYPES[inside]:
            raise MismatchError(f"{where} is {inside} in its shape and {wire_type} in protobuf")


def _entry(numbers: tuple[int, ...], kind: str, wire_type: str, keeps_zero: bool) -> str:
    number = ".".join(map(str, numbers)) + "*" * keeps_zero
    inside = kind.strip("[]{}")
    if inside in UNREAD_SHAPES:
        return f"{number}:nothing"
    if other := OVERRULED.get(wire_type):
        return f"{number}:{kind.replace(inside, other)}"
    return number


def content(folders: list[Path]) -> str:
    """The text of the module ``field_numbers``."""
    groups = [schema_dsl.parse_shapes(text) for text in SHAPES]
    numbering = Numbering(messages(folders), {name: lines for group in groups for name, lines in group.items()})
    for shape in ("ObjectMeta", "DeleteOptions"):
        numbering.visit(shape, f"{META}.{shape}")
    for api_version, kind in sorted(KINDS):
        group, _, version = api_version.rpartition("/")
        numbering.visit(kind, f"k8s.io.api.{group.partition('.')[0] or 'core'}.{version}.{kind}")
    written: set[str] = set()
    parts = []
    for each in groups:
        new = [shape for shape in each if shape in numbering.entries and shape not in written]
        written.update(new)
        parts.append("".join(_lines(shape, numbering.entries[shape]) for shape in new))
    return HEADER.format(modules=" and ".join(MODULES), release=RELEASE) + "\n".join(filter(None, parts)) + '"""\n'


def _lines(shape: str, entries: Mapping[str, str]) -> str:
    fields = " ".join(f"{name}={entry}" for name, entry in entries.items())
    wrapped = textwrap.wrap(fields, 116, break_long_words=False, break_on_hyphens=False)
    return "\n  ".join((shape, *wrapped)) + "\n"


def main() -> int:
    """Write the module."""
    if not shutil.which("go"):
        sys.stderr.write("there is no Go, which fetches the types of Kubernetes\n")
        return NOT_AVAILABLE
    try:
        text = content(download())
    except (RuntimeError, MismatchError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
