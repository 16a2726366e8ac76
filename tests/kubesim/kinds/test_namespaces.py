"""Namespaces, as a real kube-apiserver 1.36 answers."""

import pytest

from kubesim.api.status import ApiError
from kubesim.kinds.namespaces import namespaces
from tests.kubesim.kinds.strategy_writes import FakeContext, cells, create, headings, named, rejection_message, update

RESOURCE = namespaces()


def test_a_new_namespace_is_active_and_kept() -> None:
    found = create(RESOURCE, named("team", status={"phase": "Terminating"}))
    assert found["spec"] == {"finalizers": ["kubernetes"]}
    assert found["status"] == {"phase": "Active"}
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}


def test_finalizers_of_others_stay_beside_our_own() -> None:
    found = create(RESOURCE, named("team", spec={"finalizers": ["a/b"]}))
    assert found["spec"]["finalizers"] == ["a/b", "kubernetes"]
    assert "neither a standard finalizer name" in rejection_message(
        create, RESOURCE, named(spec={"finalizers": ["odd"]})
    )


def test_the_name_is_a_label() -> None:
    assert "must not contain dots" in rejection_message(create, RESOURCE, named("a.b"))
    assert "a lowercase RFC 1123 label" in rejection_message(create, RESOURCE, named("a_b"))


def test_an_update_does_not_touch_the_finalizers() -> None:
    found = create(RESOURCE, named("team"))
    after = update(RESOURCE, found, {"spec": {"finalizers": []}, "metadata": {"labels": None}})
    assert after["spec"] == {"finalizers": ["kubernetes"]}
    assert after["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}


def test_a_namespace_goes_when_its_last_finalizer_does() -> None:
    found = create(RESOURCE, named("team"))
    assert RESOURCE.strategy.blocks_removal(found)
    found["metadata"]["deletionTimestamp"] = "2026-11-15T12:00:01Z"
    RESOURCE.strategy.on_deletion(found, FakeContext())
    assert found["status"] == {"phase": "Terminating"}
    assert cells(RESOURCE, found)[1] == "Terminating"
    assert RESOURCE.strategy.blocks_removal(update(RESOURCE, found, {"spec": {"finalizers": []}}))
    assert not RESOURCE.strategy.blocks_removal({**found, "spec": {"finalizers": []}})
    assert not RESOURCE.strategy.blocks_removal({**found, "spec": {}})


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_system_namespaces_cannot_be_deleted(name: str) -> None:
    with pytest.raises(ApiError, match="this namespace may not be deleted") as refused:
        RESOURCE.strategy.on_deletion(create(RESOURCE, named(name)), FakeContext())
    assert refused.value.code == 403


def test_columns() -> None:
    assert headings(RESOURCE) == [("Name", "string", 0), ("Status", "string", 0), ("Age", "string", 0)]
    assert cells(RESOURCE, create(RESOURCE, named("team")))[:2] == ["team", "Active"]
