"""Paths, verbs and options."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim import kinds
from kubesim.api import requests
from kubesim.api.requests import Target
from kubesim.api.status import ApiError
from kubesim.registry.registry import ResourceRegistry

CATALOGUE = ResourceRegistry(kinds.resources())
PODS = CATALOGUE.stored("pods")
assert PODS is not None


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/api/v1/pods", ("pods", "", "", "")),
        ("/api/v1/namespaces/n/pods", ("pods", "n", "", "")),
        ("/api/v1/namespaces/n/pods/", ("pods", "n", "", "")),
        ("/api/v1/namespaces/n/pods/p", ("pods", "n", "p", "")),
        ("/api/v1/namespaces/n/pods/p/status", ("pods", "n", "p", "status")),
        ("/api/v1/namespaces", ("namespaces", "", "", "")),
        ("/api/v1/namespaces/n", ("namespaces", "", "n", "")),
        ("/api/v1/namespaces/n/finalize", ("namespaces", "", "n", "finalize")),
        ("/api/v1/nodes/a%2Eb", ("nodes", "", "a.b", "")),
        ("/apis/batch/v1/namespaces/n/jobs/j", ("jobs.batch", "n", "j", "")),
    ],
)
def test_a_path_names_a_target(path: str, key: tuple[str, str, str, str]) -> None:
    aim = requests.parse_target(path, CATALOGUE)
    assert aim is not None
    assert (aim.resource.qualified, aim.namespace, aim.name, aim.subresource) == key


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1",
        "/api/v2/pods",
        "/api/v1/nonsense",
        "/api/v1//pods",
        "/api/v1/pods/p",  # a pod has a namespace
        "/api/v1/namespaces/n/nodes",  # a node has none
        "/api/v1/namespaces/n/pods/p/nonsense",
        "/api/v1/namespaces/n/pods/p/status/more",
        "/apis/batch/v1",
        "",
        "*",
    ],
)
def test_other_paths_name_nothing(path: str) -> None:
    assert requests.parse_target(path, CATALOGUE) is None


def test_verbs_follow_from_method_and_name() -> None:
    whole, one = Target(PODS, "n"), Target(PODS, "n", "p")
    assert requests.request_verb("GET", whole, False) == "list"
    assert requests.request_verb("GET", whole, True) == "watch"
    assert requests.request_verb("DELETE", whole, False) == "deletecollection"
    assert requests.request_verb("DELETE", one, False) == "delete"
    assert requests.request_verb("POST", Target(PODS, "n", "p", "binding"), False) == "create"
    for method, aim in (("POST", one), ("PUT", whole), ("PATCH", whole), ("HEAD", one), ("TRACE", one)):
        with pytest.raises(ApiError) as refused:
            requests.request_verb(method, aim, False)
        assert refused.value.code == 405


@pytest.mark.parametrize("text", ["1_0", " 5", "٣", "5.0", "--1", "0x1", "1e3", "9" * 30, "9" * 5000])
def test_invalid_integer_option_is_refused(text: str) -> None:
    with pytest.raises(ApiError) as refused:
        requests.parse_int({"limit": text}, "limit")
    assert refused.value.code == 400


def test_whole_numbers_and_switches() -> None:
    assert requests.parse_int({"limit": "+07"}, "limit") == 7
    assert requests.parse_int({}, "limit") is None
    assert requests.parse_bool({"watch": ""}, "watch")
    assert requests.parse_bool({"watch": "1"}, "watch")
    assert not requests.parse_bool({"watch": "false"}, "watch")
    assert not requests.parse_bool({}, "watch")


@given(st.integers(1, 2**62), st.text(st.characters(codec="utf-8"), min_size=1, max_size=40))
def test_a_continue_token_comes_back(revision: int, name: str) -> None:
    aim = Target(PODS, "n")
    token = requests.continue_token(revision, PODS.key("n", name), aim)
    when = requests.parse_read_options(aim, {"continue": token}, watch=False)
    assert (when.revision, when.start) == (revision, PODS.key("n", name))
    assert when.exact


@pytest.mark.parametrize("token", ["x", "e30", "!!!", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"])
def test_other_tokens_are_refused(token: str) -> None:
    with pytest.raises(ApiError) as refused:
        requests.parse_read_options(Target(PODS, "n"), {"continue": token}, watch=False)
    assert refused.value.code == 400


def test_fields_that_are_not_there_read_as_nothing_or_off() -> None:
    nodes = CATALOGUE.stored("nodes")
    assert nodes is not None
    node: dict[str, Any] = {"metadata": {"name": "n"}, "spec": {}}
    assert requests.parse_selection(nodes, {"fieldSelector": "spec.unschedulable=false"}).matches(nodes, node)
    assert not requests.parse_selection(nodes, {"fieldSelector": "spec.unschedulable=true"}).matches(nodes, node)
    pod: dict[str, Any] = {"metadata": {"name": "p", "namespace": "n"}, "spec": {}}
    assert requests.parse_selection(PODS, {"fieldSelector": "spec.nodeName="}).matches(PODS, pod)


def test_unknown_fields_cannot_be_selected_by() -> None:
    with pytest.raises(ApiError) as refused:
        requests.parse_selection(PODS, {"fieldSelector": "spec.colour=red"})
    assert refused.value.message == "field label not supported: spec.colour"


def test_the_options_of_a_deletion_come_from_body_or_query() -> None:
    how = requests.parse_delete_options({}, {"gracePeriodSeconds": 3, "preconditions": {"uid": "u"}, "dryRun": ["All"]})
    assert (how.grace, how.uid, how.dry_run) == (3, "u", True)
    assert requests.parse_delete_options({"gracePeriodSeconds": "5"}, None).grace == 5
    assert requests.parse_delete_options({}, {"orphanDependents": True}).propagation == "Orphan"
    for body in (
        [],
        "x",
        {"kind": "Pod"},
        {"gracePeriodSeconds": "3"},
        {"preconditions": []},
        {"propagationPolicy": "X"},
    ):
        with pytest.raises(ApiError) as refused:
            requests.parse_delete_options({}, body)
        assert refused.value.code in {400, 422}
