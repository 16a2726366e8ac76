"""Writes docs/volcano-support.md from the table of Volcano's features in the code, and the list of differing cases.

python tools/volcano_support_page.py > docs/volcano-support.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from pumice.admission.request import CRON_JOBS, HYPER_NODES, JOB_FLOWS, JOBS, PODGROUPS, PODS, QUEUES
from pumice.admission.volcano_support import (
    ACTIONS,
    ANNOTATIONS,
    ARGUMENTS,
    COMMANDS,
    FIELDS,
    JOB_PLUGINS,
    KINDS,
    OWN_FIELDS,
    PLUGINS,
    PROGRAMS,
    Feature,
    Support,
)
from pumice.engine.config.enable_flags import EFFECTIVE, Flag
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.preemption.cooldown import TAKES

HEAD = """\
# Volcano support

<!-- Written by tools/volcano_support_page.py from the code. Change that instead. -->

What a user of Volcano finds here, and what not.

| | |
|---|---|
| **works** | as in Volcano |
| **differs** | works, and the reason column says what is different |
| **no effect** | accepted and kept; `kubectl` prints a warning when it is set, `pumice check` a note |
| **not there** | rejected, or not served, with a message that names it |

[Kinds](#kinds) · [Fields](#fields) · [Annotations](#annotations) · [Job plugins](#job-plugins) ·
[Actions](#actions) · [Scheduler plugins](#scheduler-plugins) · [Arguments](#arguments) · [Flags](#flags) ·
[Commands](#commands) · [Other schedulers](#other-schedulers) · [Manifests](#manifests) ·
[End-to-end suites](#end-to-end-suites)

## Kinds

"""

OWN = "not in Volcano"
OWN_ARGUMENTS = {"drf.rule", "drf.patience", "drf.holdLimit", "onViolation", "overcommit-factor.<resource>"}

TITLES = {
    JOBS: "Job",
    PODGROUPS: "PodGroup",
    QUEUES: "Queue",
    JOB_FLOWS: "JobFlow",
    CRON_JOBS: "CronJob",
    COMMANDS: "Command",
    HYPER_NODES: "HyperNode",
    PODS: "Pod",
}

FIELDS_HEAD = """
## Fields

A row counts for the fields below it that have no row of their own. Fields of pods that no row names work as Kubernetes
documents them.
"""

PLUGINS_HEAD = """
## Scheduler plugins

Plugins of the scheduler configuration ([configuration.md](configuration.md)). A configuration that names a plugin or
an action that is not there is rejected with its line.

"""

ARGUMENTS_HEAD = """
## Arguments

Arguments of actions and scheduler plugins. The scheduler logs a note for one that has no effect, and for every name
that is not in this table.

"""


OTHERS = """
## Other schedulers

What users of Slurm, Kueue, YuniKorn, YARN, Armada or Run:ai may look for, and Volcano does not have either, or has not
whole.

| feature | | reason, or where it is |
|---|---|---|
| web page | works | [ui.md](ui.md) |
| arrays, sweeps | works | `vsub --array`; [agent.md](agent.md#arrays-order-options-in-scripts) |
| chains, schedules | works | JobFlow and CronJob ([jobs.md](jobs.md)), `vsub --after` |
| only my jobs | works | `vjobs --me`, `pumice top --view users` |
| Python library | works | [engine.md](engine.md) |
| shares of users and accounts | differs | Queues are the accounts; inside a queue users have minimums \
and limits, and namespaces weights. |
| place in the line, expected start | differs | `pumice why` shows who is served before the job, and when it starts by \
reclaim or preemption. It forecasts no end of running jobs: nobody says how long they will run. |
| accounting of months | not there | No database is kept: [metrics](metrics.md) go to Prometheus, and \
[decision logs](last-night.md) tell what ran when, as far back as they are kept. |
| usage that decays | not there | A part follows from queues, jobs and nodes as they are now, so that it can be solved \
exactly, replayed and audited. Who used much last week is not charged for it. |
| parts of GPUs | differs | By memory or number of cards with the plugin `deviceshare`. MIG instances that a device \
plugin offers as resources (`nvidia.com/mig-1g.5gb`) count as any resource; nothing repartitions GPUs. |
| dynamic resource allocation | not there | The scheduler allocates no devices for resource claims; admission warns. |
| interactive sessions, notebooks | not there | Their pods are scheduled as all others (`schedulerName: pumice`), and \
what they need to start at once is a queue with a guarantee. Opening a session is up to JupyterHub or `kubectl exec`. |
| packages in registries | not there | The image, the chart and the wheel are built from a checkout: \
[install.md](install.md). |
"""

SUITES_HEAD = """
## Manifests

`python -m tests.volcano.manifests` applies the manifests that Volcano 1.14.1 ships to one `pumice up
--default-scheduler` of 20 nodes, and counts:

| | accepted | with a warning | refused by admission | by the schema | kind not served | broken, or not for apply |
|---|---|---|---|---|---|---|
| 38 files of `example/` | 28 | 1 | 4 | 0 | 5 | 0 |
| 93 blocks of `docs/` | 57 | 1 | 8 | 12 | 3 | 12 |

Admission refuses the three examples that are there to be refused, and what names a queue or a parent that is not
there. The schema refuses what Volcano's own definitions refuse: fields that do not exist, an object that is a string.
Kinds not served are Argo's and Spark's, `PriorityClass` of a version gone from Kubernetes, `HyperJob` and
`ColocationConfiguration`. 200 pods ran; 14 waited, each with a condition that says why: resources or labels that the
nodes do not have, and one job of which a pod is refused by Kubernetes' own rules.

## End-to-end suites

`make test-volcano` runs Volcano's own suites {suites} against `pumice up`, with `SERVER=kubernetes` against a real
kube-apiserver with simulated kubelets, and with `SERVER=nodes` against real kubelets and containers. They are compiled
unchanged from the Go module `volcano.sh/volcano`, in the version that [volcano_suites.py](../tools/volcano_suites.py)
names. The scheduler has the configuration of Volcano's CI, less the plugins that are not there, and Volcano's defaults
for the queue of jobs that name none, for reclaim and for `enableJobStarving`.

On real nodes, one run of each suite: admission 72 passed, 39 differ; jobp 45 passed, 5 differ, 1 off (Volcano itself
does not run it); jobseq 27 passed, 6 differ, 2 off; schedulingaction 32 passed, 2 differ, 4 off; vcctl 10 passed. On
every server each case passes but these, which
[differences.yaml](../tests/volcano/differences.yaml) names one by one:

| suite | cases | server | | reason |
|---|---|---|---|---|
"""

DIFFERENCES = Path(__file__).parent.parent / "tests" / "volcano" / "differences.yaml"


def page() -> str:
    """The whole page."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield HEAD
    yield from _table("kind", KINDS)
    yield FIELDS_HEAD
    for resource, features in FIELDS.items():
        yield f"\n### {TITLES[resource]}\n\n"
        yield from _table("field", features)
        if resource in OWN_FIELDS:
            names = ", ".join(f"`{name}`" for name in OWN_FIELDS[resource])
            yield f"\nNot in Volcano: {names}.\n"
    for title, column, features in (
        ("Annotations", "annotation", ANNOTATIONS),
        ("Job plugins", "plugin", JOB_PLUGINS),
        ("Actions", "action", ACTIONS),
    ):
        yield f"\n## {title}\n\n"
        yield from _table(column, features)
    yield PLUGINS_HEAD
    yield from _table("plugin", PLUGINS)
    own = ", ".join(f"`{name}`" for name in sorted(BUILT_IN.keys() - {plugin.name for plugin in PLUGINS}))
    yield f"\nNot in Volcano: {own}.\n"
    yield ARGUMENTS_HEAD
    yield from _table("argument", (*_arguments(), *ARGUMENTS))
    yield "\n## Flags\n\n"
    yield from _table("flag", _flags())
    yield "\n## Commands\n\n"
    yield from _table("command", PROGRAMS)
    yield OTHERS
    yield from _suites()


def _suites() -> Iterator[str]:
    """The differing cases of Volcano's suites, by reason."""
    suites = yaml.safe_load(DIFFERENCES.read_text())
    yield SUITES_HEAD.format(suites=", ".join(suites))
    for suite, entries in suites.items():
        for entry in entries:
            servers = entry.get("server", "all")
            where = servers if isinstance(servers, str) else ", ".join(servers)
            yield f"| `{suite}` | {len(entry['cases'])} | {where} | {entry['class']} | {entry['reason']} |\n"


def _arguments() -> Iterator[Feature]:
    """The arguments that the built-in plugins and actions take."""
    for argument in TAKES:
        yield Feature(f"reclaim: {argument.name}", Support.WORKS, OWN)
    for name, plugin in sorted(BUILT_IN.items()):
        for argument in getattr(plugin, "takes", ()):
            yield Feature(f"{name}: {argument.name}", Support.WORKS, OWN if argument.name in OWN_ARGUMENTS else "")


def _flags() -> Iterator[Feature]:
    for flag in Flag:
        if flag in EFFECTIVE:
            yield Feature(flag.value, Support.WORKS)
        else:
            yield Feature(
                flag.value,
                Support.NO_EFFECT,
                "the hook does not exist here, or is always on; the scheduler logs a note",
            )


def _table(column: str, features: Iterable[Feature]) -> Iterator[str]:
    yield f"| {column} | | reason |\n|---|---|---|\n"
    for feature in features:
        name, _, rest = feature.name.partition(" (")
        named = f"`{name}` ({rest}" if rest else f"`{name}`"
        note = f"{feature.note[0].upper()}{feature.note[1:]}." if feature.note else ""
        yield f"| {named} | {feature.support.value} | {note} |\n"


if __name__ == "__main__":
    sys.stdout.write(page())
