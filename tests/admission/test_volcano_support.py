"""The table of Volcano's features is complete and true, and admission warns of what has no effect."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from pumice.admission import Request, admit
from pumice.admission.jobs.plugin_arguments import ARGUMENTS as OUR_JOB_ARGUMENTS
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
    Feature,
    Support,
)
from pumice.config.load import read_config
from pumice.controllers.jobs.plugins import PLUGINS as OUR_JOB_PLUGINS
from pumice.crds import definitions
from pumice.engine.actions import ACTIONS as OUR_ACTIONS
from pumice.engine.config.name_suggestions import Kind, problem_with_name
from pumice.engine.plugins.builtin import BUILT_IN
from tests.support.admitted import TEMPLATE, ask, group, job, job_flow, job_template, queue, world

AROUND = world(queue("q"), job_template("t"))
SERVED = (Support.WORKS, Support.DIFFERS)
EMPTY = {"metadata", "apiVersion", "kind", "spec", "status"}
IN_POD = ".template.spec."


def named(features: tuple[Feature, ...], *support: Support) -> set[str]:
    return {feature.name for feature in features if feature.support in support}


def schema_fields(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, part in (schema.get("properties") or {}).items():
        here = f"{path}.{name}" if path else name
        inner = part.get("items")
        below = [*schema_fields(part, here), *(schema_fields(inner, f"{here}[]") if isinstance(inner, dict) else ())]
        yield here
        yield from below


def defined(resource: str) -> set[str]:
    (found,) = (one for one in definitions() if one["metadata"]["name"] == resource)
    return set(schema_fields(found["spec"]["versions"][0]["schema"]["openAPIV3Schema"])) - EMPTY


def is_covered(field: str, names: set[str]) -> bool:
    """Whether a field or one above it has an entry, or it only holds fields that have one."""
    return any(field == name or field.startswith((f"{name}.", f"{name}[]")) for name in names) or any(
        name.startswith((f"{field}.", f"{field}[]")) for name in names
    )


@pytest.mark.parametrize("resource", [JOBS, PODGROUPS, QUEUES, COMMANDS, JOB_FLOWS, CRON_JOBS, HYPER_NODES])
def test_every_field_has_an_entry_and_every_entry_is_a_field(resource):
    names = {feature.name for feature in FIELDS[resource]} | set(OWN_FIELDS.get(resource, ()))
    fields = defined(resource)
    if resource == JOBS:  # its status follows from the controller alone
        fields = {field for field in fields if not field.startswith("status")}
    assert [field for field in sorted(fields) if not is_covered(field, names)] == []
    assert {name for name in names if IN_POD not in name} <= fields


def test_volcano_feature_tables_have_unique_names():
    for features in (KINDS, ANNOTATIONS, JOB_PLUGINS, ACTIONS, PLUGINS, ARGUMENTS, *FIELDS.values()):
        assert len({feature.name for feature in features}) == len(features)


def test_entries_that_are_not_as_in_volcano_say_why():
    for features in (KINDS, ANNOTATIONS, JOB_PLUGINS, ACTIONS, PLUGINS, ARGUMENTS, *FIELDS.values()):
        for feature in features:
            assert bool(feature.note) == (feature.support is not Support.WORKS), feature
            assert not feature.note.endswith(".")


def test_the_plugins_and_actions_that_are_there_are_those_of_the_code():
    assert named(PLUGINS, *SERVED) == BUILT_IN.keys() - {"users"}
    assert named(ACTIONS, *SERVED) == OUR_ACTIONS.keys()
    assert named(JOB_PLUGINS, *SERVED) == OUR_JOB_PLUGINS.keys() == OUR_JOB_ARGUMENTS.keys()
    kinds = {f"{one['spec']['names']['kind']} ({one['spec']['group']}" for one in definitions()}
    assert {name.partition("/")[0] for name in named(KINDS, *SERVED)} == kinds


@pytest.mark.parametrize(("kind", "features"), [(Kind.PLUGIN, PLUGINS), (Kind.ACTION, ACTIONS)])
def test_a_configuration_knows_what_is_not_there(kind, features):
    for name in named(features, Support.MISSING):
        assert "is not part of this version" in (problem_with_name(kind, name, ()) or "")


@pytest.mark.parametrize("feature", ARGUMENTS, ids=lambda feature: feature.name)
def test_an_argument_without_effect_is_noted(feature):
    owner, argument = feature.name.split(": ")
    given = "true" if argument.endswith("Enable") else "1"
    if owner in OUR_ACTIONS:
        text = (
            f"actions: {owner}\ntiers: []\nconfigurations:\n- {{name: {owner}, arguments: {{{argument}: {given}}}}}\n"
        )
    else:
        text = f"actions: allocate\ntiers:\n- plugins:\n  - {{name: {owner}, arguments: {{{argument}: {given}}}}}\n"
    assert any(argument in note and "has no effect" in note for note in read_config(text, "here").notes)


def pod(**spec):
    about = {"name": "p", "namespace": "ns"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": {**TEMPLATE["spec"], **spec}}


MADE = {
    JOBS: lambda: job("j", "q", [{"name": "a", "replicas": 2}]),
    PODGROUPS: lambda: group("g", "q"),
    QUEUES: lambda: queue("new"),
    PODS: pod,
    JOB_FLOWS: lambda: job_flow("f", t=""),
}
VALUES = {
    "runningEstimate": "1h",
    "topologyPolicy": "restricted",
    "minPartitions": 1,
    "type": "x",
    "extendClusters": [{}],
    "httpGetList": [{"port": 80}],
    "tcpSocketList": [{"port": 80}],
}
WITHOUT_EFFECT = [
    (resource, feature)
    for resource, features in FIELDS.items()
    for feature in features
    if feature.support is Support.NO_EFFECT
]


def put(document: Any, path: list[str], value: object) -> str:
    """Set a field, in the first element of lists; returns its path with indices."""
    where = ""
    for position, part in enumerate(path):
        name = part.removesuffix("[]")
        where += f".{name}" if where else name
        if position == len(path) - 1:
            document[name] = value
        elif part == name:
            document = document.setdefault(name, {})
        else:
            where += "[0]"
            document = document.setdefault(name, [{}])[0]
    return where


@pytest.mark.parametrize(("resource", "feature"), WITHOUT_EFFECT, ids=lambda given: getattr(given, "name", given))
def test_a_field_without_effect_is_warned_of(resource, feature):
    plain = MADE[resource]()
    new = copy.deepcopy(plain)
    if "partitionPolicy" in feature.name:
        new["spec"]["tasks"][0]["partitionPolicy"] = {"totalPartitions": 1, "partitionSize": 2}
    name = feature.name.rpartition(".")[2]
    where = put(new, feature.name.split("."), VALUES.get(name, {"mode": "hard"}))
    verdict = admit(Request("CREATE", resource, new), AROUND)
    assert verdict.allowed, verdict.message
    assert verdict.warnings == [f"{where}: has no effect; {feature.note}"]
    assert admit(Request("CREATE", resource, plain), AROUND).warnings == []


@pytest.mark.parametrize(
    ("resource", "feature"),
    [(resource, feature) for resource, feature in WITHOUT_EFFECT if resource != PODS and IN_POD not in feature.name],
    ids=lambda given: getattr(given, "name", given),
)
def test_kubectl_explain_says_that_a_field_has_no_effect(resource, feature):
    (found,) = (one for one in definitions() if one["metadata"]["name"] == resource)
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in feature.name.split("."):
        schema = schema.get("items", schema)["properties"][part.removesuffix("[]")]
    assert "it has no effect" in schema["description"]


@pytest.mark.parametrize("name", sorted(named(ANNOTATIONS, Support.NO_EFFECT)))
def test_an_annotation_without_effect_is_warned_of(name):
    new = group("g", "q")
    new["metadata"]["annotations"] = {name: "1"}
    (warning,) = ask(AROUND, new).warnings
    assert warning.startswith(f"metadata.annotations[{name}]: has no effect; ")


def test_values_that_ask_for_nothing_are_not_warned_of():
    new = job("j", "q", [{"name": "a", "topologyPolicy": "none"}], networkTopology={}, plugins={"svc": []})
    assert ask(AROUND, new).warnings == []


def test_an_update_is_warned_of_what_it_changes():
    old = ask(AROUND, group("g", "q", subGroupPolicy=[{"name": "a"}])).object
    same, other = copy.deepcopy(old), copy.deepcopy(old)
    other["spec"]["subGroupPolicy"] = [{"name": "b"}]
    assert ask(AROUND, same, "UPDATE", old).warnings == []
    (warning,) = ask(AROUND, other, "UPDATE", old).warnings
    assert warning.startswith("spec.subGroupPolicy: has no effect; ")
