"""Read the manifests of a scenario from files.

Files are YAML streams as ``kubectl apply`` accepts them, including JSON; ``-`` is standard input, and a folder stands
for its YAML and JSON files in the order of their names. A ``List`` is replaced by its items; nothing else is
interpreted. Two features of YAML are treated differently, because they are errors in a manifest: a duplicate key is
refused, and text that looks like a date stays text.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml

from pumice.input_errors import BadInput, Problem

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")
SCENARIO = "Scenario"

# libyaml's loader where PyYAML was built with it: the same nodes, only faster.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object as written, with its file."""

    file: str
    document: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The kind of the object; empty if it has none."""
        kind = self.document.get("kind")
        return kind if isinstance(kind, str) else ""


ReadResult = list[Manifest] | BadInput
"""The manifests of a file, or its problems."""


def read_manifests(paths: Sequence[str]) -> list[Manifest]:
    """All objects of these files and folders, as one scenario, in the order given; raises BadInput."""
    together = _merge_results([outcome for path in paths for _, outcome in _read_files(path)], ", ".join(paths))
    if isinstance(together, BadInput):
        raise together
    return together


def read_scenarios(path: str) -> list[tuple[str, ReadResult]]:
    """The scenarios in a file or folder, each with its path.

    A file is one scenario. A folder is one scenario too, with all its files together, unless several of them contain a
    Scenario object: then each file is a scenario.
    """
    outcomes = _read_files(path)
    read = [manifests for _, manifests in outcomes if isinstance(manifests, list)]
    if sum(any(manifest.kind == SCENARIO for manifest in manifests) for manifests in read) > 1:
        return [(file, _merge_results([outcome], file)) for file, outcome in outcomes]
    return [(path, _merge_results([outcome for _, outcome in outcomes], path))]


def _merge_results(outcomes: list[ReadResult], path: str) -> ReadResult:
    problems = [problem for bad in outcomes if isinstance(bad, BadInput) for problem in bad.problems]
    manifests = [manifest for read in outcomes if isinstance(read, list) for manifest in read]
    if not problems and not manifests:
        problems = [Problem(path, "", "", "contains no object")]
    return BadInput(problems) if problems else manifests


def _read_files(path: str) -> list[tuple[str, ReadResult]]:
    """Each file with what it holds."""
    outcomes: list[tuple[str, ReadResult]] = []
    for file in _files(path):
        try:
            outcomes.append((file, _read(file)))
        except BadInput as error:
            outcomes.append((file, error))
    if not outcomes:
        message = f"folder contains no file with suffix {', '.join(SUFFIXES)}"
        outcomes.append((path, BadInput([Problem(path, "", "", message)])))
    return outcomes


def _files(path: str) -> list[str]:
    if path == STDIN or not Path(path).is_dir():
        return [path]
    return sorted(str(file) for file in Path(path).iterdir() if file.suffix in SUFFIXES and file.is_file())


def _read(file: str) -> list[Manifest]:
    shown = "standard input" if file == STDIN else file
    try:
        raw = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        documents = [_construct(node) for node in yaml.compose_all(raw.decode(), Loader=_LOADER)]
    except OSError as error:
        raise BadInput([Problem(shown, "", "", error.strerror or str(error))]) from None
    except UnicodeDecodeError as error:
        raise BadInput([Problem(shown, "", "", f"is not UTF-8 text (byte {error.start})")]) from None
    except yaml.MarkedYAMLError as error:
        raise BadInput([_yaml_problem(shown, error)]) from None
    except (yaml.YAMLError, ValueError) as error:
        raise BadInput([Problem(shown, "", "", f"not valid YAML: {' '.join(str(error).split())}")]) from None
    except RecursionError:
        raise BadInput([Problem(shown, "", "", "not valid YAML: nested too deeply")]) from None
    return list(_objects(shown, documents))


def _objects(file: str, documents: Iterable[object]) -> Iterable[Manifest]:
    for number, document in enumerate(documents, start=1):
        if document is None:
            continue  # an empty document
        if not isinstance(document, dict):
            kind = "a list" if isinstance(document, list) else repr(document)
            message = f"document {number} is {kind}; must be an object with apiVersion, kind and metadata"
            raise BadInput([Problem(file, "", "", message)])
        if document.get("kind") == "List" and isinstance(document.get("items"), list):
            yield from _objects(file, document["items"])
        else:
            yield Manifest(file, document)


class _Constructor(yaml.constructor.SafeConstructor):
    """Plain values out of nodes; every key once, and dates as the text they are."""

    yaml_constructors: ClassVar = yaml.constructor.SafeConstructor.yaml_constructors | {
        "tag:yaml.org,2002:timestamp": yaml.constructor.SafeConstructor.construct_yaml_str
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and seen.setdefault(key.value, id(key)) != id(key):
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key '{key.value}'", key.start_mark)
        return super().construct_mapping(node, deep)


def _construct(node: yaml.Node) -> object:
    return _Constructor().construct_document(node)


def _yaml_problem(file: str, error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    where = f"{file}:{mark.line + 1}" if mark is not None else file
    return Problem(where, "", "", f"not valid YAML: {error.problem or error.context}")
