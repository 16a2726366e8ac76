"""docs/architecture.md and CONTRIBUTING.md name files, modules and functions that exist, and draw the tree on disk."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tools.package_table import table

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"
PAGES = {
    "architecture": (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"),
    "contributing": (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
}
TOP_FOLDERS = ("src", "tests", "tools", "docs", "deploy", "examples", "benchmarks", "requirements")
PACKAGES = ("pumice", "kubesim", "kubebase")
HOPS = re.findall(r"^\| (\d+) \| `(\S+\.py)` \| `([\w.]+)` \| .* \|$", PAGES["architecture"], re.MULTILINE)
FOLDER_ROW = re.compile(r"^((?:│   )?)[├└]── (\w+)/ ", re.MULTILINE)


def quoted(page: str) -> list[str]:
    """Everything in backticks, except blocks."""
    text = re.sub(r"^\s*```.*?^\s*```", "", PAGES[page], flags=re.MULTILINE | re.DOTALL)
    return sorted(set(re.findall(r"`([^`\s]+)`", text)))


@cache
def modules() -> tuple[str, ...]:
    """Every Python module of the checkout, by its path."""
    return tuple("/" + str(path.relative_to(ROOT)) for top in TOP_FOLDERS for path in (ROOT / top).rglob("*.py"))


@cache
def defined_in(file: Path) -> set[str]:
    """The functions, classes and methods of a module: ``name`` and ``Class.name``."""
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
            found.update(f"{node.name}.{method.name}" for method in methods)
    return found


def exists(name: str) -> bool | None:
    """Whether a file, folder or module exists; None: the name is neither."""
    first = name.partition("/")[0]
    if "/" in name and first in TOP_FOLDERS:
        return bool([*ROOT.glob(name)])
    if "/" in name and first in PACKAGES:
        return (SRC / name).exists()
    if re.fullmatch(r"[\w/]+\.py", name):
        return any(module.endswith("/" + name) for module in modules())
    if re.fullmatch(r"(pumice|kubesim|kubebase|tools)(\.\w+)+", name):
        path = name.replace(".", "/")
        base = ROOT if name.startswith("tools.") else SRC
        return (base / path).is_dir() or (base / f"{path}.py").is_file()
    if re.fullmatch(r"\w+/[\w/]+", name):  # a folder below a package: fairness/limits
        return any((SRC / root / name).exists() for root in ("pumice", "pumice/engine", "kubesim"))
    return None


@pytest.mark.parametrize("page", PAGES)
def test_named_files_and_modules_exist(page: str) -> None:
    judged = {name: exists(name) for name in quoted(page)}
    assert sum(found is not None for found in judged.values()) > 20
    assert [name for name, found in judged.items() if found is False] == []


@pytest.mark.parametrize(("file", "function"), [(file, function) for _, file, function in HOPS])
def test_functions_on_the_path_of_a_pod_exist(file: str, function: str) -> None:
    assert function in defined_in(SRC / file)


def test_hops_are_counted() -> None:
    assert [int(number) for number, _, _ in HOPS] == [*range(1, len(HOPS) + 1)]
    files = {file for _, file, _ in HOPS}
    assert f"These are {len(HOPS)} hops through {len(files)} files" in PAGES["architecture"]


def test_parts_of_the_engine_are_where_the_page_says() -> None:
    parts = re.findall(r"^\| `(\w+)` \| `(engine/\S+\.py)` \|", PAGES["architecture"], re.MULTILINE)
    assert parts
    assert [name for name, file in parts if name not in defined_in(SRC / "pumice" / file)] == []


def block(start: str) -> str:
    """The block of the architecture page that begins with a line."""
    return PAGES["architecture"].partition(f"```\n{start}\n")[2].partition("```")[0]


def folders(path: Path) -> set[str]:
    return {entry.parent.name for entry in path.glob("*/__init__.py")}


def test_the_tree_of_the_engine_is_the_one_on_disk() -> None:
    rows = FOLDER_ROW.findall(block("engine/"))
    top = [name for indent, name in rows if not indent]
    assert set(top) == folders(SRC / "pumice" / "engine")
    assert {name for indent, name in rows if indent} == folders(SRC / "pumice" / "engine" / "fairness")
    docstring = ast.get_docstring(ast.parse((SRC / "pumice" / "engine" / "__init__.py").read_text())) or ""
    listed = docstring.partition("in the order of a cycle:")[2].partition("\n\n")[0]
    assert top == re.findall(r"``(\w+)``", listed)


def test_the_tree_of_packages_is_the_one_on_disk() -> None:
    tree = block("src/")
    assert set(re.findall(r"^[├└]── (\w+)/", tree, re.MULTILINE)) == folders(SRC)
    assert set(re.findall(r"^    [├└]── (\w+)/", tree, re.MULTILINE)) == folders(SRC / "pumice")


def test_the_table_of_packages_is_up_to_date() -> None:
    """If not: python -m tools.package_table, and copy what it prints."""
    shown = PAGES["contributing"].partition("package_table -->\n\n")[2].partition("\n\n")[0]
    assert shown.splitlines() == [*table()]


@pytest.mark.parametrize("page", PAGES)
def test_links(page: str) -> None:
    folder = ROOT / "docs" if page == "architecture" else ROOT
    links = re.findall(r"\]\(([^)#:]*)#?([\w-]*)\)", PAGES[page])
    assert links
    for file, section in links:
        text = (folder / file).read_text(encoding="utf-8") if file.endswith(".md") else PAGES[page]
        assert not file or (folder / file).exists(), file
        if section:
            titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
            assert section in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}, section


def test_the_word_is_package() -> None:
    for text in PAGES.values():
        assert not re.search(r"\brooms?\b", text)
