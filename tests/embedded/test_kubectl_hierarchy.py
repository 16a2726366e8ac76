"""Hierarchies of queues as people edit them with kubectl, where our controllers run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.kubectl import Namespace, queue, run, vcjob
from tests.support.kubectl_clusters import Clusters, embedded_only


@pytest.fixture(scope="module")
def kubectl(clusters: Clusters) -> Iterator[Namespace]:
    with clusters.up(1, everything=True) as kubeconfig:
        yield Namespace(kubeconfig, "default")


def entry(name: str, *below: Any, **parameters: Any) -> dict[str, Any]:
    made = {"name": name, "parameters": [{"name": key, "value": value} for key, value in parameters.items()]}
    return made | ({"hierarchy": list(below)} if below else {})


def apply(kubectl: Namespace, *objects: Any) -> str:
    """All objects in one file, as people keep them."""
    return kubectl("apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": list(objects)})


def names(kubectl: Namespace) -> set[str]:
    return {found["metadata"]["name"] for found in kubectl.object("queues")["items"]}


def spec(kubectl: Namespace, name: str) -> dict[str, Any]:
    found: dict[str, Any] = kubectl.object("queue", name)["spec"]
    return found


def test_queues_and_a_job_in_one_file(kubectl: Namespace) -> None:
    deep = entry("corp-a", entry("corp-a1", entry("corp-a11"), entry("corp-a12")))
    apply(kubectl, queue("corp", hierarchy=[deep]), vcjob("early", "corp"))
    assert kubectl.object("vcjob", "early")["spec"]["queue"] in ("corp-a11", "corp-a12")
    kubectl.until(lambda: kubectl.object("vcjob", "early").get("status", {}).get("running") == 1, 30)
    assert {"corp-a", "corp-a1", "corp-a11", "corp-a12"} <= names(kubectl)


def test_a_parameter_that_is_taken_out_goes_back_to_its_default(kubectl: Namespace) -> None:
    given = entry("pr1", weight=7, capability={"cpu": 2}, reclaimable=False)
    apply(kubectl, queue("pr", hierarchy=[given]))
    kubectl.until(lambda: "pr1" in names(kubectl) and spec(kubectl, "pr1")["weight"] == 7)
    kubectl("patch", "queue", "pr1", "--type=merge", "-p", '{"spec":{"priority":3}}')
    apply(kubectl, queue("pr", hierarchy=[entry("pr1")]))
    kubectl.until(lambda: spec(kubectl, "pr1")["weight"] == 1)
    assert spec(kubectl, "pr1") == {
        "dequeueStrategy": "traverse", "parent": "pr", "priority": 3, "reclaimable": True, "weight": 1,
    }  # fmt: skip


def test_removed_hierarchy_entry_deletes_children_and_restores_manual_queue(kubectl: Namespace) -> None:
    apply(kubectl, queue("above"))
    apply(kubectl, queue("hand", parent="above", weight=2))
    apply(kubectl, queue("above", hierarchy=[entry("hand", entry("handc"), weight=3), entry("other")]))
    kubectl.until(lambda: "handc" in names(kubectl) and spec(kubectl, "hand")["weight"] == 3)
    apply(kubectl, queue("above", hierarchy=[entry("other")]))
    kubectl.until(lambda: "handc" not in names(kubectl) and spec(kubectl, "hand")["weight"] == 2)
    left = kubectl.object("queue", "hand")
    assert "hierarchy" not in left["spec"]
    assert not [name for name in left["metadata"]["annotations"] if name.startswith("pumice.dev/")]


def test_user_limits_that_were_removed_do_not_come_back(kubectl: Namespace) -> None:
    apply(kubectl, queue("lim", weight=5, minUserLimitPercent=25, userLimitFactor=2))
    apply(kubectl, queue("limc", parent="lim"))
    kubectl.until(lambda: "minUserLimitPercent" not in spec(kubectl, "lim"))
    apply(kubectl, queue("lim", weight=5, userLimitFactor=2))
    kubectl("delete", "queue", "limc")
    kubectl.until(lambda: "userLimitFactor" in spec(kubectl, "lim"))
    assert "minUserLimitPercent" not in spec(kubectl, "lim")


def test_two_appliers_own_two_parameters_of_one_queue(kubectl: Namespace) -> None:
    for manager, given in (("a", entry("ssa1", weight=3)), ("b", entry("ssa1", priority=2))):
        wanted = queue("ssa", hierarchy=[given])
        kubectl("apply", "--server-side", f"--field-manager={manager}", "-f", "-", given=wanted)
    kubectl.until(lambda: "ssa1" in names(kubectl) and spec(kubectl, "ssa1").get("priority") == 2)
    assert spec(kubectl, "ssa1")["weight"] == 3
    again = queue("ssa", hierarchy=[entry("ssa1", weight=4)])
    status, said = kubectl.tried("apply", "--server-side", "--field-manager=b", "-f", "-", given=again)
    assert status == 1
    assert '.spec.hierarchy[name="ssa1"].parameters[name="weight"].value' in said


def test_a_manifest_is_applied_again_after_routing(kubectl: Namespace) -> None:
    apply(kubectl, queue("x"))
    apply(kubectl, queue("x1", parent="x"), queue("x2", parent="x"))
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "againpg"},
        "spec": {"queue": "x", "minMember": 1, "minResources": {"cpu": "1"}},
    }
    for made, kind in ((vcjob("again", "x"), "vcjob"), (group, "podgroup")):
        apply(kubectl, made)
        before = kubectl.object(kind, made["metadata"]["name"])
        assert before["spec"]["queue"] in ("x1", "x2")
        apply(kubectl, made)
        kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=made)
        after = kubectl.object(kind, made["metadata"]["name"])
        assert after["spec"] == before["spec"]
        assert after["metadata"]["generation"] == before["metadata"]["generation"]


def test_a_misspelt_key_is_refused_by_its_path_for_every_client(kubectl: Namespace) -> None:
    dev = {"name": "dev", "hierarchy": [{"name": "test1", "paramters": [{"name": "weight", "value": 9}]}]}
    for wrong, path in ((dev, "[0].hierarchy[0]"), ({"name": "dev", "paramters": []}, "[0]")):
        for how in (("apply",), ("create", "--validate=false")):
            status, said = kubectl.tried(*how, "-f", "-", given=queue("typo", hierarchy=[wrong]))
            assert status == 1
            assert f"spec.hierarchy{path}.paramters: unknown field of a hierarchy entry" in said
    assert "typo" not in names(kubectl)


def test_absurd_depths_are_refused_and_keep_nobody_waiting(kubectl: Namespace, clusters: Clusters) -> None:
    embedded_only(clusters, "how deep objects may nest is the server's to say")
    path = "/".join(["root", *(f"l{level}" for level in range(2000))])
    deep = queue("deep")
    deep["metadata"]["annotations"] = {"volcano.sh/hierarchy": path}
    status, said = kubectl.tried("create", "-f", "-", given=deep)
    assert (status, "is 2000 levels below root; at most 200 are allowed" in said) == (1, True)
    assert len(said) < 500
    text = '{"name":"n"}'
    for level in range(2000):
        text = f'{{"name":"n{level}","hierarchy":[{text}]}}'
    head = json.dumps(queue("nest"))
    body = head.replace('"spec": {}', f'"spec": {{"hierarchy": [{text}]}}')
    status, said = run(kubectl.kubeconfig, "create", "--validate=false", "-f", "-", given=body)
    assert (status, "exceeded max depth" in said) == (1, True)
    assert names(kubectl) & {"deep", "nest"} == set()


def test_names_and_users_have_no_control_characters(kubectl: Namespace) -> None:
    garbled = queue("garbled")
    garbled["metadata"]["annotations"] = {"volcano.sh/hierarchy": "root/a\x1b[31mb/garbled"}
    status, said = kubectl.tried("create", "-f", "-", given=garbled)
    assert (status, "may not contain control characters" in said) == (1, True)
    job = vcjob("garbled", "default")
    job["metadata"]["annotations"] = {"volcano.sh/user": "ann\x07e"}
    status, said = kubectl.tried("create", "-f", "-", given=job)
    assert (status, "metadata.annotations[volcano.sh/user]" in said) == (1, True)
    assert "\x1b" not in said and "\x07" not in said
