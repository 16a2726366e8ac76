"""Writes docs/configuration.md from the descriptions of plugins, actions and flags in the code.

python tools/configuration_page.py > docs/configuration.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from pumice.engine.actions import ACTIONS
from pumice.engine.config.enable_flags import EFFECTIVE, MEANING, OFF_BY_DEFAULT, Flag
from pumice.engine.config.scheduler_config import DEFAULT_CONFIG
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.plugins.plugin import Argument
from pumice.engine.preemption.cooldown import TAKES

HEAD = f"""\
# Configuration

<!-- Written by tools/configuration_page.py from the code. Change that instead. -->

Volcano's scheduler configuration file, read unchanged. `pumice up` and `pumice scheduler` take it with `--config FILE`
and follow its changes ([operations.md](operations.md#changing-the-configuration)). In a scenario it stands in
`spec.config`, or in a file that `spec.configFile` names. Without any, this is in force:

```yaml
{DEFAULT_CONFIG.rstrip()}
```

Actions run in the order given, once a cycle. Plugins are asked in the order of the tiers; earlier ones decide before
later ones. Unknown names are rejected with their line number, where Volcano ignores them. Names that Volcano knows but
Pumice does not implement are accepted with a note.

A configuration may change between the cycles of a scenario (event `config`): it is taken over whole, or refused whole.

What each policy does, with numbers: [policies.md](policies.md). Plugins of your own: [extending.md](extending.md).
"""

ACTIONS_HEAD = """
## Actions

Their arguments stand under `configurations`:

```yaml
configurations:
- name: reclaim
  arguments: {reclaim.patience: 30, reclaim.minRuntime: 60}
```

| action | does |
|---|---|
"""

PLUGINS_HEAD = """
## Plugins

Their arguments stand in the tiers, beside their flags:

```yaml
- name: drf
  enableHierarchy: true
  arguments: {drf.patience: 600}
```
"""

FLAGS_HEAD = """
## Flags

A plugin uses a hook unless its flag says `false`; `enableHierarchy` must be asked for. `enable...` and `enabled...` are
the same.

| flag | on | what it allows |
|---|---|---|
"""


def page() -> str:
    """The whole page."""
    return "".join([HEAD, *_actions(), *_plugins(), *_flags()])


def _actions() -> Iterator[str]:
    yield ACTIONS_HEAD
    for name, action in ACTIONS.items():
        yield f"| `{name}` | {_about(sys.modules[action.__module__].__doc__, name)} |\n"
    yield "\n"
    yield from _arguments("argument of `reclaim`", TAKES)


def _plugins() -> Iterator[str]:
    yield PLUGINS_HEAD
    for name, plugin in sorted(BUILT_IN.items()):
        module = sys.modules[getattr(plugin, "__module__", "")]
        yield f"\n### {name}\n\n{_about(module.__doc__, name)}\n"
        takes = getattr(plugin, "takes", None)
        if takes:
            yield "\n"
            yield from _arguments("argument", takes)


def _flags() -> Iterator[str]:
    yield FLAGS_HEAD
    for flag, meaning in MEANING.items():
        yield f"| `{flag.value}` | {'no' if flag in OFF_BY_DEFAULT else 'yes'} | {meaning} |\n"
    others = ", ".join(f"`{flag.value}`" for flag in Flag if flag not in EFFECTIVE)
    yield f"\nRead and without effect: {others}.\n"


def _arguments(heading: str, arguments: Iterable[Argument]) -> Iterator[str]:
    yield f"| {heading} | default | |\n|---|---|---|\n"
    for argument in arguments:
        yield f"| `{argument.name}` | {argument.default} | {argument.meaning} |\n"


def _about(docstring: str | None, name: str) -> str:
    """The first sentence of a module, without its name and the places in the design it refers to."""
    first = (docstring or "").split("\n\n")[0].replace("\n", " ").removeprefix(f"{name}: ")
    text = first.partition(" (docs/fairness.md")[0].rstrip(".")
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    sys.stdout.write(page())
