"""Write the public API as text: every name of ``pumice.engine`` and ``pumice.plugin``, with its signature.

python -m tools.public_api > tests/cases/public_api.txt

A class is listed with its annotated attributes, members and public methods. Classes of which plugins only read objects
are listed with the attributes that the docstring of ``pumice.plugin`` names, and nothing else: the rest is internal.
The text is made from the sources, so it is the same under every version of Python.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

MODULES = ("pumice.engine", "pumice.plugin")
READ = re.compile(r"^- ``(\w+)``.*?(?=^- |^$)", re.MULTILINE | re.DOTALL)


def imported_names(module: ModuleType) -> dict[str, str]:
    """The names that a module imports from others, and from where; those for type checkers included."""
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module)
    return {name.name: str(node.module) for node in found for name in node.names}


def read_attributes() -> dict[str, list[str]]:
    """The attributes that a plugin may read, by class: the list in the docstring of ``pumice.plugin``."""
    found = {}
    for entry in READ.finditer(import_module("pumice.plugin").__doc__ or ""):
        words = re.findall(r"``(\w+)``", entry[0].partition(":")[2] if ":" in entry[0] else "")
        found[entry[1]] = [word for word in words if word[0].islower()]
    found["JobNode"] = [*found["ShareNode"], *found["JobNode"]]
    del found["Registry"]  # a plugin and a shell may call all of it
    return found


def public_api() -> str:
    """The text of the whole API."""
    return "\n".join(line for name in MODULES for line in _module(import_module(name)))


def _module(module: ModuleType) -> Iterator[str]:
    yield f"# {module.__name__}"
    homes, read = imported_names(module), read_attributes()
    for name in module.__all__:
        value = getattr(module, name)
        if name in read:
            yield f"class {name}: {', '.join(read[name])}"
        elif isinstance(value, type) and value.__module__.startswith(("pumice.", "kubebase.")):
            yield from _class(value)
        elif inspect.isfunction(value):
            yield _function(_definition(value))
        elif isinstance(value, str):
            yield f"{name}: str"
        elif isinstance(value, Mapping):
            yield f"{name}: {', '.join(sorted(value))}"
        elif isinstance(value, int):
            yield f"{name} = {value}"
        else:
            yield f"{name} = {_assigned(name, import_module(homes[name]))}"
    yield ""


def _class(found: type) -> Iterator[str]:
    node = _definition(found)
    assert isinstance(node, ast.ClassDef)
    yield from (f"@{ast.unparse(decorator)}" for decorator in node.decorator_list)
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    yield f"class {node.name}({bases}):" if bases else f"class {node.name}:"
    for part in node.body:
        match part:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                if not name.startswith("_"):
                    yield f"    {ast.unparse(part)}"
            case ast.FunctionDef(name=name) if name == "__init__" or not name.startswith("_"):
                yield from (f"    @{ast.unparse(decorator)}" for decorator in part.decorator_list)
                yield f"    {_function(part)}"


def _function(node: ast.stmt) -> str:
    assert isinstance(node, ast.FunctionDef)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"def {node.name}({ast.unparse(node.args)}){returns}"


def _definition(found: object) -> ast.stmt:
    assert inspect.isclass(found) or inspect.isfunction(found)
    return ast.parse(inspect.getsource(found)).body[0]


def _assigned(name: str, home: ModuleType) -> str:
    for node in ast.parse(inspect.getsource(home)).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                return ast.unparse(value)
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value) if found == name:
                return ast.unparse(value)
    raise LookupError(f"{home.__name__} assigns no {name}")


if __name__ == "__main__":
    sys.stdout.write(public_api())
