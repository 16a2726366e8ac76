"""The public API, ``pumice.engine`` and ``pumice.plugin``: its names and signatures do not change by accident."""

from __future__ import annotations

import difflib
import inspect
import re
import subprocess
import sys
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path

import pytest

import pumice.engine
import pumice.plugin
from pumice.engine import ACTIONS, BUILT_IN, Changed, Engine, JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, parse_config
from pumice.plugin import AllocationUnit, JobNode, NodeTable, Plugin, TaskShape
from tests.support.processes import run_process
from tools.public_api import MODULES, imported_names, public_api, read_attributes

ROOT = Path(__file__).parent.parent
RECORDED = ROOT / "tests" / "cases" / "public_api.txt"
CHANGED = """\
The public API changed. Plugins and programs of others use these names:

{difference}

If that was not your intention, keep the old name or signature. If it was: describe the change in CHANGELOG.md, then
run `python -m tools.public_api > tests/cases/public_api.txt` and commit the file together with the change."""
HEAVY = ("numpy", "yaml", "pumice.engine.engine", "pumice.engine.fairness", "pumice.engine.plugins")
EXPORTED = [(module, name) for module in MODULES for name in import_module(module).__all__]


def test_names_and_signatures_are_those_recorded() -> None:
    recorded, now = RECORDED.read_text(encoding="utf-8").splitlines(), public_api().splitlines()
    difference = "\n".join(difflib.unified_diff(recorded, now, "recorded", "now", lineterm="", n=1))
    if difference:
        pytest.fail(CHANGED.format(difference=difference), pytrace=False)


@pytest.mark.parametrize("module", MODULES)
def test_dunder_all_is_sorted_and_lists_imported_names(module: str) -> None:
    found = import_module(module)
    constants = [name for name in found.__all__ if name.isupper()]
    classes = [name for name in found.__all__ if not name.isupper() and name[0].isupper()]
    functions = [name for name in found.__all__ if name[0].islower()]
    assert found.__all__ == [*sorted(constants), *sorted(classes), *sorted(functions)]
    helpers = {"annotations", "import_module", "TYPE_CHECKING"}
    assert set(found.__all__) == imported_names(found).keys() - helpers


@pytest.mark.parametrize(("module", "name"), EXPORTED)
def test_every_name_is_documented(module: str, name: str) -> None:
    found = import_module(module)
    assert re.search(rf"``{name}``", found.__doc__ or ""), f"the docstring of {module} does not mention {name}"
    value = getattr(found, name)
    if inspect.isfunction(value) or (isinstance(value, type) and value.__module__.startswith(("pumice", "kubebase"))):
        text = vars(value).get("__doc__") if isinstance(value, type) else value.__doc__
        made = is_dataclass(value) and str(text).startswith(f"{name}(")  # what dataclass writes where nobody did
        assert text and not made, f"{name} has no docstring"


@pytest.mark.parametrize("name", pumice.engine.__all__)
def test_a_name_of_the_engine_is_loaded_from_where_type_checkers_see_it(name: str) -> None:
    home = import_module(imported_names(pumice.engine)[name])
    assert getattr(pumice.engine, name) is getattr(home, name)
    assert name in dir(pumice.engine)


def test_other_names_of_the_engine_are_errors() -> None:
    with pytest.raises(AttributeError, match=r"module 'pumice\.engine' has no attribute 'Nothing'"):
        _ = pumice.engine.Nothing  # type: ignore[attr-defined]  # which is the error to be seen
    with pytest.raises(ImportError):
        from pumice.engine import Nothing  # type: ignore[attr-defined]  # noqa: F401  # raises before it is used


@pytest.mark.process
@pytest.mark.parametrize("module", ["pumice.engine", "pumice.engine.events"])
def test_importing_the_package_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = run_process([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "[]\n"


class Reader(Plugin):
    """Notes the objects that hooks get."""

    name = "reader"
    seen: dict[str, object]

    def allocatable(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        assert leaf.parent is not None
        task = next(iter(leaf.job.tasks.values()))
        own = (self.state, self.tree, self.order, next(iter(self.state.nodes.values())))
        for found in (*own, leaf, leaf.parent, unit, leaf.job, task, unit.parts[0][0]):
            type(self).seen[type(found).__name__] = found
        type(self).seen["ServingOrder"] = self.order
        return None

    def node_filter(self, shape: TaskShape, nodes: NodeTable) -> None:
        type(self).seen["NodeTable"] = nodes


def test_objects_passed_to_plugins_have_documented_attributes() -> None:
    Reader.seen = {}
    factories = {**BUILT_IN, "reader": Reader}
    text = "{actions: allocate, tiers: [{plugins: [{name: drf, enableHierarchy: true}, {name: reader}]}]}"
    engine = Engine(parse_config(text, known_plugins=factories, known_actions=ACTIONS), factories)
    engine.apply(Changed(NodeSpec("n", (4000, 0, 10))))
    engine.apply(Changed(Queue("q")))
    engine.apply(Changed(JobSpec("d", "j", "q", phase=JobPhase.INQUEUE)))
    engine.apply(Changed(TaskSpec("d", "t", (1000, 0, 1), job="d/j")))
    assert engine.cycle(1)
    for name, attributes in read_attributes().items():
        assert attributes
        assert isinstance(Reader.seen[name], getattr(pumice.plugin, name))
        assert [word for word in attributes if not hasattr(Reader.seen[name], word)] == [], name


def test_the_example_plugin_uses_the_public_api_only() -> None:
    pages = [*(ROOT / "examples" / "plugins").rglob("*.py"), ROOT / "docs" / "extending.md"]
    for page in pages:
        modules = set(re.findall(r"^(?:from|import) (pumice\S*)", page.read_text(encoding="utf-8"), re.MULTILINE))
        assert modules == {"pumice.plugin"}, page
