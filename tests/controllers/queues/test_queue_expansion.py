"""What an entry of a hierarchy makes of its queue, and which queues a hierarchy names no more."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubebase.field_error import FieldError
from kubebase.resource_vector import Registry
from pumice.admission.cluster_view import describe_queue
from pumice.controllers.queues.deletion_plan import next_to_delete
from pumice.controllers.queues.expansion import (
    contradiction,
    expanded_queue,
    released_queue,
    without_entry,
)
from pumice.controllers.queues.inherited_fields import inherited_fields, parameter_value
from pumice.controllers.queues.merge_diff import merge_patch
from pumice.controllers.routing_events import NEWS_SECONDS, is_news
from pumice.kube.event_recorder import one_shot_event
from pumice.kube.resources import EVENTS, QUEUES
from pumice.model.queue_expansion import expand_hierarchy
from pumice.model.specs import Queue
from tests.support.admitted import queue
from tests.support.queue_clusters import MemoryCluster, Process

Document = dict[str, Any]
PARENT = queue("eng") | {"metadata": {"name": "eng", "uid": "u-eng"}}
MADE = {"pumice.dev/expanded-by": "u-eng"}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def entry(*below: Document, **parameters: Any) -> Document:
    made = {"name": "q", "parameters": [{"name": name, "value": value} for name, value in parameters.items()]}
    return made | ({"hierarchy": list(below)} if below else {})


def marked(**values: Any) -> Document:
    """The record of the fields that a hierarchy has set."""
    return {"pumice.dev/set-by-hierarchy": json.dumps(values, sort_keys=True)}


def test_a_new_queue_has_its_parent_its_parameters_and_the_part_below() -> None:
    below = {"name": "x"}
    made = expanded_queue(
        PARENT, entry(below, weight="5", reclaimable="false", capability={"cpu": 4}), None, childless=True
    )
    values = '{"capability": {"cpu": 4}, "reclaimable": false, "weight": 5}'
    marks = {"pumice.dev/handed-down": "true", "pumice.dev/set-by-hierarchy": values}
    assert made["metadata"] == {"name": "q", "annotations": {**MADE, **marks}}
    assert made["spec"] == {
        "parent": "eng",
        "weight": 5,
        "reclaimable": False,
        "capability": {"cpu": 4},
        "hierarchy": [below],
    }


@pytest.mark.parametrize(
    ("there", "wanted", "change"),
    [
        # what is as it should be is left alone
        ({"weight": 2, "annotations": MADE | marked(weight=2)}, entry(weight="2"), {}),
        ({"guarantee": {"cpu": "1"}, "annotations": {}}, entry(guarantee={"resource": {"cpu": "1"}}), {}),
        # of a queue that the hierarchy made before it kept records, its parameters came from there
        ({"weight": 2}, entry(weight="2"), {"metadata": {"annotations": marked(weight=2)}}),
        # what is named is set, everything else stays
        (
            {"weight": 2, "priority": 7, "annotations": MADE | marked(weight=2)},
            entry(weight=3),
            {"metadata": {"annotations": marked(weight=3)}, "spec": {"weight": 3}},
        ),
        (
            {"deserved": {"cpu": "1"}},
            entry(deserved={"cpu": "2"}),
            {"metadata": {"annotations": marked(deserved={"cpu": "2"})}, "spec": {"deserved": {"cpu": "2"}}},
        ),
        # what is named no more goes back to its default
        (
            {"weight": 2, "capability": {"cpu": 4}, "annotations": MADE | marked(weight=2, capability={"cpu": 4})},
            entry(),
            {
                "metadata": {"annotations": {"pumice.dev/set-by-hierarchy": None}},
                "spec": {"weight": None, "capability": None},
            },
        ),
        # unless somebody has set it since then
        (
            {"weight": 9, "annotations": MADE | marked(weight=2)},
            entry(),
            {"metadata": {"annotations": {"pumice.dev/set-by-hierarchy": None}}},
        ),
        # or had it in a manifest of the queue: then it is that again
        (
            {"weight": 2, "annotations": {LAST_APPLIED: '{"spec": {"weight": 6}}'} | marked(weight=2)},
            entry(),
            {"metadata": {"annotations": {"pumice.dev/set-by-hierarchy": None}}, "spec": {"weight": 6}},
        ),
        # amounts count, not how they are written: this is still what the hierarchy gave
        (
            {"capability": {"cpu": "4000m"}, "annotations": marked(capability={"cpu": 4})},
            entry(),
            {"metadata": {"annotations": None}, "spec": {"capability": None}},
        ),
        (
            {
                "guarantee": {"memory": "1Gi"},
                "annotations": marked(guarantee={"resource": {"memory": 1 << 30}}),
            },
            entry(guarantee={"resource": {"memory": "1024Mi"}}),
            {"metadata": {"annotations": marked(guarantee={"resource": {"memory": "1024Mi"}})}},
        ),
        # an amount that nobody can read stays as it is
        (
            {"capability": {"cpu": "four"}, "annotations": marked(capability={"cpu": 4})},
            entry(),
            {"metadata": {"annotations": None}},
        ),
        # what somebody had set before the hierarchy said the same is not the hierarchy's
        ({"weight": 2, "annotations": {}}, entry(weight=2), {}),
        # a record that somebody spoiled is none
        (
            {"weight": 2, "annotations": {"pumice.dev/set-by-hierarchy": "[1"}},
            entry(),
            {"metadata": {"annotations": None}},
        ),
        # a hierarchy of its own stays
        ({"hierarchy": [{"name": "own"}]}, entry(), {}),
        # one from above is marked
        (
            {"hierarchy": [{"name": "x"}]},
            entry({"name": "y"}),
            {"metadata": {"annotations": {"pumice.dev/handed-down": "true"}}, "spec": {"hierarchy": [{"name": "y"}]}},
        ),
        # and goes with its entry
        (
            {"hierarchy": [{"name": "x"}], "annotations": {**MADE, "pumice.dev/handed-down": "true"}},
            entry(),
            {"metadata": {"annotations": {"pumice.dev/handed-down": None}}, "spec": {"hierarchy": None}},
        ),
        # what others do not understand makes no difference
        (
            {"hierarchy": [{"name": "x"}], "annotations": {**MADE, "pumice.dev/handed-down": "true"}},
            entry({"name": "x", "comment": "pruned by some"}),
            {},
        ),
        # made by a parent that was deleted and made anew
        ({"annotations": {"pumice.dev/expanded-by": "u-old"}}, entry(), {"metadata": {"annotations": MADE}}),
        # made by hand: it stays so
        (
            {"annotations": {}},
            entry(weight=4),
            {"metadata": {"annotations": marked(weight=4)}, "spec": {"weight": 4}},
        ),
    ],
)
def test_a_queue_that_is_there_keeps_what_is_not_named(there: Document, wanted: Document, change: Document) -> None:
    known = queue("q", **{"parent": "eng", "annotations": MADE, **there})
    assert merge_patch(known, expanded_queue(PARENT, wanted, known, childless=True)) == change


def test_user_limits_of_an_entry_that_is_a_parent_are_kept_aside() -> None:
    known = queue("q", parent="eng", annotations=MADE)
    first = expanded_queue(PARENT, entry(minUserLimitPercent=25), known, childless=False)
    assert "minUserLimitPercent" not in first["spec"]
    assert first["metadata"]["annotations"]["pumice.dev/user-limits"] == '{"minUserLimitPercent": 25}'
    assert expanded_queue(PARENT, entry(minUserLimitPercent=25), first, childless=False) is first


def test_user_limits_of_an_entry_go_with_it_wherever_they_are() -> None:
    made = expanded_queue(PARENT, entry(minUserLimitPercent=25, userLimitFactor=2.0), None, childless=True)
    for childless in (True, False):
        known = expanded_queue(PARENT, entry(minUserLimitPercent=25, userLimitFactor=2.0), made, childless=childless)
        left = expanded_queue(PARENT, entry(userLimitFactor=2.0), known, childless=childless)
        again = expanded_queue(PARENT, entry(userLimitFactor=2.0), left, childless=True)
        assert {name: again["spec"].get(name) for name in ("minUserLimitPercent", "userLimitFactor")} == {
            "minUserLimitPercent": None,
            "userLimitFactor": 2.0,
        }


def test_a_queue_made_by_hand_that_is_named_no_more_is_what_it_was() -> None:
    hand = queue("q", parent="eng", priority=3)
    named = expanded_queue(PARENT, entry({"name": "x"}, weight=7), hand, childless=True)
    assert released_queue(named, childless=False) == hand
    assert released_queue(hand, childless=True) is hand
    own = queue("q", parent="eng", hierarchy=[{"name": "own"}])
    assert released_queue(own, childless=False) is own


@pytest.mark.parametrize("wrong", [{"weight": "many"}, {"weihgt": 1}, {"capability": 5}])
def test_a_parameter_that_cannot_be_meant_is_an_error(wrong: Document) -> None:
    with pytest.raises(FieldError):
        expanded_queue(PARENT, entry(**wrong), None, childless=True)


def test_a_queue_that_stands_elsewhere_is_not_the_one_that_is_meant() -> None:
    root = queue("root")
    assert contradiction(root, queue("q")) == ""
    assert contradiction(PARENT, queue("q", parent="eng")) == ""
    assert contradiction(PARENT, queue("q")) == "queue 'q' must be a child of 'eng', but it is below 'root'"
    by_path = queue("q", annotations={"volcano.sh/hierarchy": "root/eng/q"})
    assert contradiction(PARENT, by_path) == "queue 'q' must be a child of 'eng', but it is at 'root/eng/q'"


def test_an_entry_is_taken_out_at_any_depth() -> None:
    hierarchy = [{"name": "a"}, {"name": "b", "hierarchy": [{"name": "c"}, {"name": "d"}]}]
    assert without_entry(hierarchy, "a") == hierarchy[1:]
    assert without_entry(hierarchy, "c") == [{"name": "a"}, {"name": "b", "hierarchy": [{"name": "d"}]}]
    assert without_entry([{"name": "b", "hierarchy": [{"name": "c"}]}], "c") == [{"name": "b"}]
    assert without_entry(hierarchy, "x") is hierarchy


def test_amounts_that_move_from_one_queue_to_another_find_their_order() -> None:
    """By the order of the entries b would have 8 of 10 while a still has 6, and be refused."""
    cluster = MemoryCluster()
    cluster.put(QUEUES, {"metadata": {"name": "root"}, "spec": {}})
    cluster.put(QUEUES, {"metadata": {"name": "p"}, "spec": {"deserved": {"cpu": "10"}}})

    def divided(b: str, a: str) -> list[Document]:
        return [entry(deserved={"cpu": b}) | {"name": "b"}, entry(deserved={"cpu": a}) | {"name": "a"}]

    for b, a in (("4", "6"), ("8", "2")):
        cluster.merge(QUEUES, "p", {"spec": {"hierarchy": divided(b, a)}})
        asyncio.run(Process(cluster).settle())
        assert [(cluster.queue(name) or {})["spec"]["deserved"]["cpu"] for name in "ba"] == [b, a]
    assert not list(cluster.all(EVENTS))


def test_an_empty_queue_that_is_just_being_written_goes_a_little_later() -> None:
    class Busy(MemoryCluster):
        interrupted = False

        async def delete(self, resource: Any, name: str, namespace: str = "", **how: Any) -> None:
            if not self.interrupted:
                self.interrupted = True
                self.merge(QUEUES, "q", {"status": {"running": 0}}, subresource="status")
            await super().delete(resource, name, namespace, **how)

    cluster = Busy()
    cluster.put(QUEUES, {"metadata": {"name": "root"}, "spec": {}})
    for hierarchy in ([entry()], []):
        cluster.merge(QUEUES, "root", {"spec": {"hierarchy": hierarchy}})
        asyncio.run(Process(cluster).settle())
    assert cluster.interrupted
    assert cluster.queue("q") is None


def test_an_empty_queue_may_go_while_it_is_asked_whether_it_is_empty() -> None:
    class Quick(MemoryCluster):
        process: Process | None = None
        asked = False

        async def list(self, resource: Any) -> Any:
            found = await super().list(resource)
            if self.process is not None and not self.asked:
                self.asked = True
                self.merge(QUEUES, "q", {"metadata": {"finalizers": None}})
                self.drop(QUEUES, "q")
                self.process.deliver(QUEUES.name, 1000)
            return found

    cluster = Quick()
    cluster.put(QUEUES, {"metadata": {"name": "root"}, "spec": {}})
    cluster.merge(QUEUES, "root", {"spec": {"hierarchy": [entry()]}})
    asyncio.run(Process(cluster).settle())
    cluster.merge(QUEUES, "root", {"spec": {"hierarchy": []}})
    cluster.process = Process(cluster)
    asyncio.run(cluster.process.settle())
    assert cluster.asked
    assert cluster.queue("q") is None


def test_a_hierarchy_that_waits_says_why() -> None:
    cluster = MemoryCluster()
    cluster.put(QUEUES, {"metadata": {"name": "root"}, "spec": {}})
    cluster.put(QUEUES, {"metadata": {"name": "p"}, "spec": {"hierarchy": [entry()]}})
    # Nobody lets q be made below another queue, but some clusters have nobody to ask.
    elsewhere = queue("q", parent="root") | {"metadata": {"name": "q", "uid": "u-q"}}
    cluster._store(QUEUES, "q", elsewhere)
    asyncio.run(Process(cluster).settle())
    (told,) = cluster.all(EVENTS)
    assert told["reason"] == "HierarchyNotApplied"
    assert told["message"].endswith("cannot be applied: queue 'q' must be a child of 'p', but it is below 'root'")


def test_a_queue_without_a_place_says_so() -> None:
    cluster = MemoryCluster()
    cluster.put(QUEUES, {"metadata": {"name": "root"}, "spec": {}})
    for name, spec in (("lost", {"parent": "nowhere"}), ("odd", {"weight": "many"})):
        cluster._store(QUEUES, name, {"metadata": {"name": name, "uid": name}, "spec": spec})
    asyncio.run(Process(cluster).settle())
    messages = [(cluster.queue(name) or {})["status"]["conditions"][0]["message"] for name in ("lost", "odd")]
    assert messages == [
        "spec.parent: Not found: 'nowhere': create that queue first, or use 'root'",
        "spec.weight: Invalid value: 'many': must be an integer; write it without quotes",
    ]


# ---- what goes with a queue -------------------------------------------------------------------------------


def found(name: str, **more: Any) -> Document:
    return {"metadata": {"name": name, "namespace": "ns", "uid": name, **more}, "spec": {"queue": "q"}}


def test_children_go_first_then_jobs_then_pods_and_podgroups() -> None:
    child = {"metadata": {"name": "c", "uid": "c", "deletionTimestamp": "now"}}
    mine, other = found("mine"), found("other") | {"spec": {"queue": "r"}}
    member = found("member", annotations={"scheduling.k8s.io/group-name": "mine"})
    stranger = found("stranger", annotations={"scheduling.k8s.io/group-name": "other"})

    def names(*what: list[Document]) -> list[tuple[str, str, bool]]:
        return [(one.resource.kind, one.name, one.leaving) for one in next_to_delete("q", *what)]

    assert names([child], [mine], [mine], [member]) == [("Queue", "c", True)]
    assert names([], [mine, other], [mine], [member]) == [("Job", "mine", False)]
    assert names([], [other], [mine, other], [member, stranger]) == [
        ("Pod", "member", False),
        ("PodGroup", "mine", False),
    ]
    assert names([], [other], [other], [member, stranger]) == []


# ---- where jobs were sent ---------------------------------------------------------------------------------


def test_routing_is_news_only_for_recent_routed_jobs() -> None:
    sent = found("j", annotations={"pumice.dev/routed": "sent"}, creationTimestamp="1970-01-01T01:00:00Z")
    assert is_news(sent, 3600 + NEWS_SECONDS - 1)
    assert not is_news(sent, 3600 + NEWS_SECONDS + 1)
    assert not is_news(found("j", creationTimestamp="1970-01-01T01:00:00Z"), 3600)


def test_an_event_has_a_name_of_its_own() -> None:
    about = queue("q") | {"metadata": {"name": "q", "uid": "u"}}
    one, same, another = (one_shot_event("c", about, "R", words, "now") for words in ("a", "a", "b"))
    assert one["metadata"] == same["metadata"] != another["metadata"]
    assert one["metadata"]["namespace"] == "default"
    assert one["involvedObject"] == {"apiVersion": about["apiVersion"], "kind": "Queue", "name": "q", "uid": "u"}
    long = one_shot_event("c", found("x" * 253) | {"apiVersion": "v1", "kind": "Pod"}, "R", "m" * 2000, "now")
    assert len(long["metadata"]["name"]) == 253
    assert len(long["message"]) == 1024


PARAMETERS = st.fixed_dictionaries(
    {},
    optional={
        "weight": st.sampled_from([1, "2", 7]),
        "priority": st.sampled_from([0, "3"]),
        "reclaimable": st.sampled_from([True, "false"]),
        "capability": st.sampled_from([{"cpu": 4}, {"cpu": "4000m"}, {"memory": "1Gi"}]),
        "userLimitFactor": st.sampled_from([2.0, "0.5"]),
    },
)
"""Parameters of entries; some are written in two ways."""


@given(previous=PARAMETERS, wanted=PARAMETERS, edited=PARAMETERS)
@example(previous={"capability": {"cpu": 4}}, wanted={}, edited={"capability": {"cpu": "4000m"}})
def test_document_expansion_agrees_with_the_expansion_of_the_model(
    previous: Document, wanted: Document, edited: Document
) -> None:
    """Admission judges queues as ``pumice.model.queue_expansion`` expands them; the controller must write the same."""
    registry = Registry()

    def parsed(found: Document) -> Queue:
        return describe_queue(found, registry)

    def parent(parameters: Document) -> Queue:
        return parsed(queue("eng", hierarchy=[entry(**parameters)]))

    there = expanded_queue(PARENT, entry(**previous), queue("q"), childless=True)
    there["spec"] |= {name: parameter_value(name, value) for name, value in edited.items()}
    written = expanded_queue(PARENT, entry(**wanted), there, childless=True)
    # A field that already had the value of its parameter was set by the author of the queue: the record tells.
    recorded = inherited_fields(there) or {}
    (before,) = parent({name: value for name, value in previous.items() if name in recorded}).hierarchy
    (planned,) = expand_hierarchy(parent(wanted), {"q": parsed(there)}, {"q": before})
    assert parsed(written) == planned
