"""CustomResourceDefinitions, as a real kube-apiserver 1.36 answers, and the resources they become."""

from typing import Any

import pytest

from kubesim.kinds import custom_resources
from kubesim.kinds.crds import FINALIZER, custom_resource_definitions
from kubesim.registry.registry import Object, ResourceRegistry, ScalePaths
from tests.kubesim.kinds.strategy_writes import FakeContext, cells, create, headings, named, rejection_message, update

RESOURCE = custom_resource_definitions()


def version(name: str = "v1", **fields: Any) -> Object:
    spec = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "object"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": True, "storage": True, "schema": schema, **fields}


def definition(*versions: Object, names: Object | None = None, name: str = "", **spec: Any) -> Object:
    known = {"plural": "foos", "kind": "Foo", **(names or {})}
    whole = {"group": "a.com", "scope": "Namespaced", "names": known, "versions": list(versions) or [version()]}
    return named(name or f"{known['plural']}.a.com", spec={**whole, **spec})


def around(*found: Object) -> FakeContext:
    return FakeContext(*found, resource=custom_resources.QUALIFIED)


def conditions(found: Object) -> dict[str, tuple[str, str]]:
    return {entry["type"]: (entry["status"], entry["reason"]) for entry in found["status"]["conditions"]}


def test_names_that_follow_from_others() -> None:
    found = create(RESOURCE, definition())
    assert found["spec"]["names"] == {"plural": "foos", "kind": "Foo", "singular": "foo", "listKind": "FooList"}
    assert found["spec"]["conversion"] == {"strategy": "None"}
    assert found["status"]["acceptedNames"] == found["spec"]["names"]
    assert found["status"]["storedVersions"] == ["v1"]
    assert conditions(found) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }


def test_names_that_are_taken() -> None:
    first = create(RESOURCE, definition())
    world = around(first)
    second = create(RESOURCE, definition(names={"plural": "bars", "shortNames": ["foos"]}), world)
    assert conditions(second) == {
        "NamesAccepted": ("False", "ListKindConflict"),
        "Established": ("False", "NotAccepted"),
    }
    assert second["status"]["acceptedNames"] == {"plural": "bars", "kind": ""}
    assert second["status"]["conditions"][0]["message"] == '"FooList" is already in use'
    assert list(custom_resources.resources(second)) == []
    freed = {"kind": "Bar", "singular": "bar", "listKind": "BarList", "shortNames": ["b"]}
    after = update(RESOURCE, second, {"spec": {"names": freed}}, world)
    assert conditions(after)["Established"] == ("True", "InitialNamesAccepted")


def test_another_group_takes_no_names() -> None:
    other = create(RESOURCE, definition(group="b.com", name="foos.b.com"))
    assert custom_resources.is_established(create(RESOURCE, definition(), around(other)))


def test_established_definition_stays_established_after_name_conflict() -> None:
    first = create(RESOURCE, definition())
    second = create(RESOURCE, definition(names={"plural": "bars", "kind": "Bar"}), around(first))
    after = update(RESOURCE, second, {"spec": {"names": {"shortNames": ["foo"]}}}, around(first, second))
    assert conditions(after) == {
        "NamesAccepted": ("False", "ShortNamesConflict"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert "shortNames" not in after["status"]["acceptedNames"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"group": "b.com"}, 'metadata.name: Invalid value: "foos.a.com": must be spec.names.plural+"."+spec.group'),
        ({"group": ""}, "spec.group: Required value"),
        ({"group": "a"}, 'spec.group: Invalid value: "a": should be a domain with at least one dot'),
        ({"scope": ""}, "spec.scope: Required value"),
        ({"scope": "X"}, 'spec.scope: Unsupported value: "X": supported values: "Cluster", "Namespaced"'),
        ({"versions": []}, "must have exactly one version marked as storage version"),
        ({"versions": [version(), version()]}, "must contain unique version names"),
        ({"versions": [version(storage=False)]}, "must have exactly one version marked as storage version"),
        ({"versions": [version("V1")]}, 'spec.versions[0].name: Invalid value: "V1": a DNS-1035 label must consist of'),
        ({"versions": [version(schema={})]}, "spec.versions[0].schema.openAPIV3Schema: Required value"),
        (
            {"versions": [version(schema={"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}})]},
            "spec.versions[0].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty",
        ),
        (
            {"versions": [version(additionalPrinterColumns=[{"name": "x", "type": "foo", "jsonPath": "spec.a"}])]},
            'type: Invalid value: "foo": must be one of boolean,date,integer,number,string',
        ),
        (
            {"versions": [version(additionalPrinterColumns=[{"name": "x", "type": "string", "jsonPath": "spec.a"}])]},
            'jsonPath: Invalid value: "spec.a": must be a simple json path starting with .',
        ),
        (
            {"versions": [version(selectableFields=[{"jsonPath": ".spec.b"}])]},
            'selectableFields[0].jsonPath: Invalid value: ".spec.b": is an invalid path',
        ),
        (
            {"versions": [version(subresources={"scale": {"specReplicasPath": ".spec.replicas"}})]},
            "subresources.scale.statusReplicasPath: Required value",
        ),
        ({"preserveUnknownFields": True}, "spec.preserveUnknownFields: Invalid value: true: cannot set to true"),
        (
            {"versions": [version(), version("v2", storage=False)], "conversion": {"strategy": "Webhook"}},
            'spec.conversion.strategy: Unsupported value: "Webhook": supported values: "None"',
        ),
        (
            {"names": {"plural": "foos", "kind": "1Foo"}},
            'spec.names.kind: Invalid value: "1Foo": may have mixed case, but should otherwise match: a DNS-1035 label',
        ),
        (
            {"names": {"plural": "foos", "kind": "Foo", "listKind": "Foo"}},
            'spec.names.listKind: Invalid value: "Foo": kind and listKind may not be the same',
        ),
        (
            {"names": {"plural": "foos", "kind": "Foo", "shortNames": ["A b"]}},
            'spec.names.shortNames[0]: Invalid value: "A b": a DNS-1035 label must consist of',
        ),
    ],
)
def test_refused(spec: Object, words: str) -> None:
    whole = definition()
    whole["spec"] |= spec
    assert words in rejection_message(create, RESOURCE, whole)


def test_an_empty_definition_lacks_everything() -> None:
    words = rejection_message(create, RESOURCE, named("x"))
    for field in ("spec.group", "spec.scope", "spec.names.plural", "spec.names.singular", "spec.names.kind"):
        assert f"{field}: Required value" in words


def test_groups_of_kubernetes_are_protected() -> None:
    whole = definition(group="a.k8s.io", name="foos.a.k8s.io")
    assert "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval" in (
        rejection_message(create, RESOURCE, whole)
    )
    whole["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved"}
    assert create(RESOURCE, whole)["spec"]["group"] == "a.k8s.io"


def test_a_webhook_for_a_single_version_is_never_called() -> None:
    assert create(RESOURCE, definition(conversion={"strategy": "Webhook", "webhook": {"any": "thing"}}))


def test_definition_scope_group_and_names_are_immutable() -> None:
    found = create(RESOURCE, definition())
    change = {"scope": "Cluster", "group": "b.com", "names": {"plural": "bars", "kind": "Bar"}}
    words = rejection_message(update, RESOURCE, found, {"spec": change})
    for field in ("spec.scope", "spec.names.kind", "spec.group", "spec.names.plural"):
        assert f"{field}: Invalid value" in words
    assert words.count("field is immutable") == 4


def test_versions_that_were_stored_stay() -> None:
    found = create(RESOURCE, definition())
    both = [version(storage=False), version("v2")]
    after = update(RESOURCE, found, {"spec": {"versions": both}})
    assert after["status"]["storedVersions"] == ["v1", "v2"]
    assert 'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions' in (
        rejection_message(update, RESOURCE, after, {"spec": {"versions": [version("v2")]}})
    )


def test_a_deleted_definition_waits_for_its_objects() -> None:
    found = create(RESOURCE, definition())
    RESOURCE.strategy.on_deletion(found, FakeContext())
    RESOURCE.strategy.on_deletion(found, FakeContext())
    assert found["metadata"]["finalizers"] == [FINALIZER]


def test_columns() -> None:
    assert headings(RESOURCE) == [("Name", "string", 0), ("Created At", "date", 0)]
    assert cells(RESOURCE, create(RESOURCE, definition())) == ["foos.a.com", "2026-11-15T12:00:00Z"]


# ---- resources ----------------------------------------------------------------------------------------------


def test_the_resources_of_a_definition() -> None:
    newer = version(
        "v2",
        subresources={"status": {}, "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".spec.a"}},
        additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": ".spec.a", "priority": 1}],
        selectableFields=[{"jsonPath": ".spec.a"}],
    )
    names = {"shortNames": ["f"], "categories": ["all"]}
    found = create(
        RESOURCE, definition(version(storage=False), newer, version("v3", served=False, storage=False), names=names)
    )
    (first, first_stored), (second, second_stored) = custom_resources.resources(found)
    assert (first.api_version, first_stored) == ("a.com/v1", False)
    assert (second.api_version, second_stored) == ("a.com/v2", True)
    assert first.qualified == second.qualified == "foos.a.com"
    assert second.custom and second.namespaced and second.strategy.has_generation
    assert (second.kind, second.singular, second.short_names, second.categories) == ("Foo", "foo", ("f",), ("all",))
    assert (first.subresources, second.subresources) == (frozenset(), frozenset({"scale", "status"}))
    assert (first.scale, second.scale) == (None, ScalePaths(("spec", "a"), ("spec", "a")))
    assert [name for name, _, _ in headings(first)] == ["Name", "Age"]
    assert headings(second) == [("Name", "string", 0), ("A", "string", 1)]
    assert second.fields == {"spec.a": ("spec", "a")}
    thing = create(second, named(spec={"a": "x", "unknown": 1}))
    assert thing["spec"] == {"a": "x"} and thing["metadata"]["generation"] == 1
    assert cells(second, thing) == ["it", "x"]


def test_installing_replaces_what_was_there() -> None:
    registry = ResourceRegistry([])
    found = create(RESOURCE, definition(version(storage=False), version("v2")))
    custom_resources.install(registry, found)
    stored = registry.stored("foos.a.com")
    assert stored is not None and stored.version == "v2"
    after = update(RESOURCE, found, {"spec": {"versions": [version(storage=False, served=False), version("v2")]}})
    custom_resources.install(registry, after)
    assert registry.find("a.com", "v1", "foos") is None
    assert registry.find("a.com", "v2", "foos") is not None
    edition = registry.version
    custom_resources.uninstall(registry, after)
    assert not list(registry) and registry.version > edition
    custom_resources.uninstall(registry, after)  # a second time does no harm
