"""Writes docs/configuration.md from the descriptions of plugins, actions and flags in the code.

python tools/configuration_page.py > docs/configuration.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from pumice.engine.actions import ACTIONS
from pumice.engine.config.enable_flags import EFFECTIVE, MEANING, OFF_BY_DEFAULT, Flag
from pumice.engine.config.scheduler_config import DEFAULT_CONFIG, DEFAULT_QUEUE_KEY
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.plugins.plugin import Argument
from pumice.engine.preemption.cooldown import TAKES
from pumice.kube.decode.preemption_annotations import QUEUE_NAMES

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
later ones. Unknown names are rejected with their line number, where Volcano ignores them, and so are plugins and
actions of Volcano that do not exist here ([volcano-support.md](volcano-support.md)). Flags and arguments without effect
are accepted with a note.

## Queue of a job that names none

```yaml
{DEFAULT_QUEUE_KEY}: default
```

A Job, PodGroup or pod that names no queue gets, in this order:

1. the queue in the annotation `{QUEUE_NAMES[0]}` of its namespace;
2. the queue that `{DEFAULT_QUEUE_KEY}` names;
3. the least used open leaf of the whole tree. This is the default, because it needs no queue set aside for it.

Both may name a parent queue, for the least used leaf below it. A job whose default queue does not exist or is closed is
refused, with a message that says where the name comes from. `vsub` prints why a job got its queue; the annotation
`pumice.dev/routed` of the job and an Event `Routed` keep it. Volcano's default is the queue `default`, and
`pumice install --take-over` sets that.

The scheduler publishes the name in `status.scheduler` of queue `root`, where admission reads it; a change counts after
a few seconds. Beside Volcano, whose definition of Queue lacks this field, use the annotation. Without webhooks a job
that names no queue is in `default`.

## Changes

A configuration may change between the cycles of a scenario (event `config`): it is taken over whole, or refused whole.

What each policy does, with numbers: [policies.md](policies.md). Plugins of your own: [extending.md](extending.md).
"""

ACTIONS_HEAD = """
## Actions

Their arguments stand under `configurations`:

```yaml
configurations:
- name: reclaim
  arguments: {reclaim.patience: 30, reclaim.minRuntime: 60, reclaim.maxLostWork: 3600}
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

A plugin uses a hook unless its flag says `false`; `enableHierarchy` and `enableJobStarving` must be asked for.
`enable...` and `enabled...` are the same.

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
