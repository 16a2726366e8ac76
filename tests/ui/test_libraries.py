"""The libraries of the pages are those that are listed, and nothing of theirs is missing from a package."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tools.ui_libraries import LIST, ROOT, differences, libraries

PAGES = ROOT / "src/pumice/ui/web"


def test_files_are_those_of_the_list() -> None:
    assert differences() == []


def test_a_changed_a_missing_and_an_unlisted_file_are_noticed(tmp_path: Path) -> None:
    for library in libraries():
        for file in library["files"]:
            (tmp_path / file["path"]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file["path"], tmp_path / file["path"])
    assert differences(tmp_path) == []
    vendor = tmp_path / LIST.parent.relative_to(ROOT)
    (vendor / "preact.js").write_text("changed")
    (vendor / "uplot.css").unlink()
    (vendor / "more.js").write_text("")
    found = differences(tmp_path)
    assert [line.split(":")[0].rpartition("/")[2] for line in found] == ["preact.js", "uplot.css", "more.js"]


def test_each_library_ships_its_licence_and_says_why_it_is_there() -> None:
    for library in libraries():
        assert any("LICENSE" in file["path"] for file in library["files"]), library["name"]
        assert library["reason"], library["name"]


def test_the_versions_are_those_that_the_type_checker_reads() -> None:
    pinned = json.loads((ROOT / "tools/ui/package.json").read_text())["devDependencies"]
    assert {library["name"]: library["version"] for library in libraries()}.items() <= pinned.items()


def test_the_readme_lists_each_library_with_its_version() -> None:
    text = (PAGES / "README.md").read_text()
    for library in libraries():
        assert f"| {library['name']} {library['version']} | {library['licence']} |" in text


def test_the_pages_hold_no_inline_script_or_style_and_no_foreign_address() -> None:
    page = (PAGES / "index.html").read_text()
    assert "<style" not in page
    assert " style=" not in page
    assert "onclick" not in page
    for path in PAGES.rglob("*.js"):
        if path.parent.name != "vendor":
            text = path.read_text()
            for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "https://"):
                assert word not in text.replace("Nothing in this folder uses innerHTML.", ""), path
