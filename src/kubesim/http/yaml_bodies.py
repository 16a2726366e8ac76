"""YAML in requests and responses. Most clients use JSON, so this module and PyYAML are loaded on first use."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import yaml

from kubesim.api import status
from kubesim.http.content_negotiation import encode, parse, require_depth, too_deep_error
from kubesim.schema import DEEPEST

MOST_NODES = 100_000
"""The maximum number of values in a YAML document, with aliases expanded."""

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml may not be there
    """PyYAML's loader without numbers of base 60, such as ``1:59:59``.

    Kubernetes reads these as text. PyYAML takes the square of their length to compute them: a single request could stop
    the server for minutes.
    """

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        """A number with a tag of its own."""
        if ":" in node.value:
            raise yaml.constructor.ConstructorError(None, None, f"not a number: {node.value[:40]}", node.start_mark)
        number: int | float = _CONSTRUCTORS[node.tag](self, node)
        return number


_NUMBERS = {
    "tag:yaml.org,2002:int": re.compile(r"[-+]?(0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)\Z"),
    "tag:yaml.org,2002:float": re.compile(
        r"([-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z"
    ),
}
_CONSTRUCTORS = {tag: _Loader.yaml_constructors[tag] for tag in _NUMBERS}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, _NUMBERS.get(tag, pattern)) for tag, pattern in resolvers]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
for _tag in _NUMBERS:
    _Loader.add_constructor(_tag, _Loader.construct_number)


def encode_yaml(found: Any) -> bytes:
    """A document as YAML."""
    return yaml.dump(found, Dumper=_DUMPER, sort_keys=False).encode()


def decode_yaml(content: bytes) -> Any:
    """Decode a YAML document. Raises ``ApiError`` if it is malformed."""
    try:
        _check_bounds(content)
        loader = _Loader(content)
        node = loader.get_single_node()
        if node is not None and _weight(node, {}) > MOST_NODES:
            raise status.bad_request("error converting YAML to JSON: document contains excessive aliasing")
        as_json = encode(loader.construct_document(node) if node is not None else None)
        return require_depth(parse(as_json), as_json)  # dates are text, keys are strings: only what JSON has stays
    except status.ApiError:
        raise
    except RecursionError:
        raise too_deep_error() from None
    except Exception as error:  # the loader fails in many ways on tags that do not fit their values
        known = isinstance(error, yaml.YAMLError | msgspec.MsgspecError)
        detail = " ".join(str(error).split()) if known else "a value does not fit its tag"
        raise status.bad_request(f"error converting YAML to JSON: {detail}") from None


def _check_bounds(content: bytes) -> None:
    """Reject a document that is too deep or too large before it is constructed: PyYAML recurses without a limit."""
    depth = 0
    for count, event in enumerate(yaml.parse(content, Loader=_Loader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise too_deep_error()
        if count > MOST_NODES:
            raise status.bad_request(f"error converting YAML to JSON: more than {MOST_NODES} values; send JSON instead")


def _weight(node: yaml.Node, known: dict[int, int]) -> int:
    """The number of values of a document with aliases expanded. A document that contains itself has too many."""
    weight = known.get(id(node))
    if weight is None:
        known[id(node)] = MOST_NODES + 1  # until it is known: only a node inside itself asks so early
        if isinstance(node, yaml.MappingNode):
            weight = 1 + sum(_weight(key, known) + _weight(value, known) for key, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            weight = 1 + sum(_weight(value, known) for value in node.value)
        else:
            weight = 1
        known[id(node)] = weight
    return weight
