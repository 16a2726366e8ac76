"""Plugins from outside: found by entry point, imported when named, and never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pumice.config.load import default_config, read_config
from pumice.config.plugin_loader import plugin_factories, plugin_names
from pumice.engine.config.scheduler_config import ConfigError
from pumice.engine.plugins.builtin import BUILT_IN

GOOD = """
from pumice.engine.plugins.plugin import Plugin
class Quiet(Plugin):
    name = "quiet"
"""

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A distribution with one module and these entry points, on the path until the test ends."""
    before = set(sys.modules)

    def install(name: str, code: str, *points: str, metadata: str | None = None) -> Path:
        folder = tmp_path / f"{name}-{len(list(tmp_path.iterdir()))}"
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"{name}.py").write_text(code)
        (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n" if metadata is None else metadata)
        (info / "entry_points.txt").write_text("\n".join(["[pumice.plugins]", *points]))
        monkeypatch.syspath_prepend(str(folder))
        return folder

    yield install
    for module in set(sys.modules) - before:
        del sys.modules[module]


def config(plugin: str, arguments: str = "{}") -> str:
    return f'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: {plugin}\n    arguments: {arguments}\n'


def refusal(plugin: str, arguments: str = "{}") -> str:
    with pytest.raises(ConfigError) as refused:
        read_config(config(plugin, arguments), "conf.yaml")
    return str(refused.value)


def test_plugin_loader_without_external_plugins_yields_built_ins() -> None:
    assert plugin_names() == frozenset(BUILT_IN)
    found = plugin_factories(default_config())
    assert all(BUILT_IN[name] is factory for name, factory in found.items())


def test_a_plugin_is_imported_when_a_configuration_names_it(install: Install) -> None:
    install("acme", GOOD, "quiet = acme:Quiet")
    assert "quiet" in plugin_names()
    read_config(config("drf"), "conf.yaml")
    assert "acme" not in sys.modules
    factories = plugin_factories(read_config(config("quiet"), "conf.yaml"))
    assert factories["quiet"]({}).name == "quiet" and factories["gang"] is BUILT_IN["gang"]
    assert "acme" in sys.modules


@pytest.mark.parametrize(
    ("code", "point", "message"),
    [
        (
            "import no_such_module",
            "quiet = acme:Quiet",
            "acme 1.0 (acme:Quiet) cannot be imported: ModuleNotFoundError",
        ),
        ("", "quiet = acme:Quiet", "acme 1.0 (acme:Quiet) cannot be imported: AttributeError"),
        ("def (", "quiet = acme:Quiet", "acme 1.0 (acme:Quiet) cannot be imported: SyntaxError"),
        ("raise SystemExit(3)", "quiet = acme:Quiet", "acme 1.0 (acme:Quiet) cannot be imported: SystemExit: 3"),
        ("class Quiet: pass", "quiet = acme:Quiet", "acme 1.0 (acme:Quiet) is not a subclass of pumice."),
        ("def Quiet(arguments): pass", "quiet = acme:Quiet", "acme 1.0 (acme:Quiet) is not a subclass of pumice."),
        (GOOD, "quiet = acme", "acme 1.0 (acme) is not a subclass of pumice."),
        (
            GOOD.replace('"quiet"', '"loud"'),
            "quiet = acme:Quiet",
            "has the name 'loud', but its entry point is named 'quiet'",
        ),
        (
            f"{GOOD}\n    def __init__(self, arguments): 1 / 0",
            "quiet = acme:Quiet",
            "acme 1.0 (acme:Quiet) rejected its arguments: ZeroDivisionError",
        ),
        (
            f"{GOOD}\n    def __init__(self): pass",
            "quiet = acme:Quiet",
            "acme 1.0 (acme:Quiet) rejected its arguments: TypeError",
        ),
    ],
)
def test_a_broken_plugin_is_an_error_of_the_configuration_that_uses_it(
    install: Install, code: str, point: str, message: str
) -> None:
    install("acme", code, point)
    install("fine", GOOD.replace("quiet", "calm"), "calm = fine:Quiet")
    found = refusal("quiet")
    assert found.startswith('conf.yaml:5: plugin "quiet": ') and message in found and "\n" not in found
    assert "calm" in plugin_factories(read_config(config("calm"), "conf.yaml"))
    assert default_config().plugins


def test_arguments_that_a_plugin_refuses_have_their_line(install: Install) -> None:
    code = GOOD.replace("import Plugin", "import Plugin, PluginError")
    install("acme", f"{code}\n    def __init__(self, a): raise PluginError('x', 'write 1')", "quiet = acme:Quiet")
    assert refusal("quiet", "\n      x: 2") == "conf.yaml:7: plugin quiet: argument x: write 1"


def test_a_name_that_is_built_in_stays_whose_it_is(install: Install) -> None:
    install("acme", GOOD.replace('"quiet"', '"drf"'), "drf = acme:Quiet", "quiet = acme:Quiet")
    assert refusal("drf") == (
        'conf.yaml:5: plugin "drf": plugin name is built in, but acme 1.0 (acme:Quiet) has a plugin of '
        "that name too; remove one of them"
    )
    assert "priority" in plugin_factories(read_config(config("priority"), "conf.yaml"))


def test_two_packages_with_one_name(install: Install) -> None:
    install("acme", GOOD, "quiet = acme:Quiet")
    install("other", GOOD, "quiet = other:Quiet")
    found = refusal("quiet")
    assert "acme 1.0 (acme:Quiet)" in found and "other 1.0 (other:Quiet)" in found and "remove all but one" in found


def test_plugin_package_installed_twice_counts_once(install: Install) -> None:
    install("acme", GOOD, "quiet = acme:Quiet")
    install("Acme", GOOD, "quiet = acme:Quiet")
    assert "quiet" in plugin_factories(read_config(config("quiet"), "conf.yaml"))


def test_a_package_without_a_name(install: Install) -> None:
    install("acme", "", "quiet = acme:Quiet", metadata="")
    assert 'plugin "quiet": a package (acme:Quiet) cannot be imported' in refusal("quiet")


def test_a_package_with_unreadable_papers_is_passed_over(install: Install) -> None:
    install("acme", GOOD, "quiet = acme:Quiet")
    bad = install("bad", GOOD, "loud = bad:Quiet")
    (bad / "bad-1.0.dist-info" / "entry_points.txt").write_bytes(b"[pumice.plugins]\n\xff\xfe=\n")
    assert "quiet" in plugin_names() and "loud" not in plugin_names()


def test_flags_that_nobody_knows_stay_refused(install: Install) -> None:
    install("acme", GOOD, "quiet = acme:Quiet")
    with pytest.raises(ConfigError, match='unknown flag "enableQuiet"'):
        read_config(config("quiet").replace("arguments: {}", "enableQuiet: true"), "conf.yaml")
