"""docs/fairness.md: every citation of it leads to a section, and every worked example is what the engine does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pumice.cli.main import cli
from tests.support.shell_pages import ROOT, Shown, shown

PAGE = ROOT / "docs" / "fairness.md"
TEXT = PAGE.read_text(encoding="utf-8")
HEADINGS = re.findall(r"^#{2,3} (\d+(?:\.\d+)?)\.? (.+)$", TEXT, re.MULTILINE)
SECTIONS = [number for number, _ in HEADINGS]
EXAMPLES = re.split(r"^(?=\*\*Example: )", TEXT, flags=re.MULTILINE)[1:]
FILES = sorted(path.relative_to(ROOT) for path in (ROOT / "examples" / "fairness").glob("*.yaml"))

NUMBER = r"\d+(?:\.\d+)?"
MENTION = re.compile(r"[\w./]*\bfairness\.md")
CITATION = re.compile(rf"docs/fairness\.md, (sections?) ({NUMBER}(?:(?:, | and | to ){NUMBER})*)")
LINK = re.compile(r"\[[^]]*\]\((?:docs/|\.\./)?fairness\.md(?:#([\w-]+))?\)")
SUFFIXES = {".py", ".md", ".toml", ".yaml", ".yml", ".sh", ".txt", ""}
PLACES = ("src", "tests", "tools", "docs", "benchmarks", "examples", "deploy", ".ci")
GENERATED = {"__pycache__", "node_modules"}
PARSERS = {  # files that look for citations themselves
    Path("tests/test_fairness_page.py"),
    Path("tests/engine/test_schedule_cases.py"),
    Path("tools/configuration_page.py"),
}


def sources() -> Iterator[Path]:
    """The files in which somebody may cite the rules."""
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.suffix in SUFFIXES)
    for place in PLACES:
        for path in sorted((ROOT / place).rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES and not GENERATED.intersection(path.parts):
                yield path


def unwrapped(text: str) -> str:
    """A text without its line ends, so that a citation may stand on two lines of a comment."""
    return re.sub(r"\s*\n\s*(?:# )?", " ", text)


def citations() -> Iterator[tuple[Path, str, list[str]]]:
    """Every mention of the page outside of it: the file, the words, and the sections that these name."""
    for path in sources():
        relative = path.relative_to(ROOT)
        if path == PAGE or relative in PARSERS:
            continue
        text = path.read_text(encoding="utf-8")
        if "fairness.md" not in text:  # nearly all
            continue
        text = unwrapped(text)
        text = LINK.sub("", text) if path.suffix == ".md" else text
        for mention in MENTION.finditer(text):
            words = text[mention.start() : mention.end() + 40]
            cited = CITATION.match(text, mention.start())
            yield relative, words, re.findall(NUMBER, cited[2]) if cited else []


CITED = list(citations())


# --- sections ---------------------------------------------------------------------------------------------------


def test_sections_are_numbered_without_gaps() -> None:
    main = [int(number) for number in SECTIONS if "." not in number]
    assert main == list(range(1, 14))
    for number in main:
        below = [int(section.partition(".")[2]) for section in SECTIONS if section.startswith(f"{number}.")]
        assert below == list(range(1, len(below) + 1)), f"section {number}"


def test_the_repository_cites_the_page() -> None:
    assert len(CITED) >= 90
    assert {path.parts[0] for path, _, _ in CITED} >= {"src", "tests", "pyproject.toml"}


@pytest.mark.parametrize("path", sorted({path for path, _, _ in CITED}), ids=str)
def test_citations_lead_to_sections(path: Path) -> None:
    for where, words, numbers in CITED:
        if where == path:
            assert numbers, f"{words!r} names no section; write 'docs/fairness.md, section N'"
            missing = [number for number in numbers if number not in SECTIONS]
            assert not missing, f"{words!r}: docs/fairness.md has no section {', '.join(missing)}"
            assert words.startswith("docs/fairness.md, sections ") is (len(numbers) > 1), words


def test_links_lead_to_sections() -> None:
    titles = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    places = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
    linking: set[str] = set()
    for path in sources():
        if path.suffix == ".md" and path != PAGE:
            for place in LINK.findall(path.read_text(encoding="utf-8")):
                linking.add(str(path.relative_to(ROOT)))
                assert not place or place in places, f"{path}: #{place}"
    assert linking >= {"README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/concepts.md", "docs/policies.md"}


def test_sections_named_on_the_page_exist() -> None:
    named = re.findall(rf"\bsections? ({NUMBER}(?:(?:, | and | to ){NUMBER})*)", unwrapped(TEXT))
    for number in (number for numbers in named for number in re.findall(NUMBER, numbers)):
        assert number in SECTIONS, number


# --- worked examples ----------------------------------------------------------------------------------------------


def test_every_example_is_run() -> None:
    assert len(EXAMPLES) >= 30
    for example in EXAMPLES:
        title = example.partition("**")[2].partition("**")[0]
        first = re.split(r"^#", example, maxsplit=1, flags=re.MULTILINE)[0]
        assert [one.command for one in shown(first) if one.output], f"{title}: no command shows its outcome"


@pytest.mark.parametrize("one", shown(TEXT), ids=[one.command for one in shown(TEXT)])
def test_fairness_page_command_prints_shown_output(one: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(cli, one.command.split()[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    printed = iter(done.output.splitlines())
    for line in one.output:  # in this order; the page may leave lines out
        assert line in printed, f"{one.command}: the page shows {line!r}; it printed\n{done.output}"


@pytest.mark.parametrize("file", FILES, ids=str)
def test_the_scenario_expects_what_happens(file: Path) -> None:
    assert str(file) in TEXT
    done = CliRunner().invoke(cli, ["check", str(ROOT / file)], catch_exceptions=False)
    assert done.output.splitlines()[-1] == "1 passed, 0 failed", done.output
    assert "expects nothing" not in done.output
