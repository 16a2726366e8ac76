"""What the state knows of a pod beyond its own words: its class's, its job's, and who selects it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from kubebase.label_selector import Requirement
from kubebase.resource_vector import Registry
from pumice.engine.events import Changed, Gone
from pumice.model.specs import DisruptionBudget, JobSpec, PodTerm, PriorityClass, TaskSpec
from tests.support.histories import build_state

POD = TaskSpec("ns", "t", (1, 0, 1), job="ns/j")
CLASSES = (
    PriorityClass("polite", 100, preempts=False),
    PriorityClass("rude", 100),
)
MEEK_DEFAULTS = (
    PriorityClass("low", 1, default=True),
    PriorityClass("high", 2, default=True, preempts=False),  # of several defaults the highest counts
)


@pytest.mark.parametrize(
    ("own", "priority_class", "classes", "expected"),
    [
        (None, None, (), True),
        (None, "missing", (), True),
        (False, None, (), False),
        (None, "polite", CLASSES, False),
        (None, "rude", CLASSES, True),
        (True, "polite", CLASSES, True),
        (False, "rude", CLASSES, False),
        (None, None, MEEK_DEFAULTS, False),
        (None, "low", MEEK_DEFAULTS, True),
    ],
)
def test_whether_a_pod_preempts_is_its_own_policy_else_its_classs(own, priority_class, classes, expected) -> None:
    state = build_state(classes, Registry())
    assert state.task_preempts(replace(POD, preempts=own, priority_class=priority_class)) is expected


@pytest.mark.parametrize(
    ("own", "group", "expected"),
    [
        (None, None, True),
        (None, True, True),
        (None, False, False),
        (True, False, True),
        (False, True, False),
        (False, None, False),
    ],
)
def test_whether_a_pod_may_go_is_its_own_word_else_its_groups(own, group, expected) -> None:
    groups = [] if group is None else [JobSpec("ns", "j", "q", preemptable=group)]
    state = build_state([replace(POD, preemptable=own), *groups], Registry())
    assert state.tasks["ns/t"].preemptable is expected


def test_the_pods_that_a_term_selects() -> None:
    web = Requirement("app", "In", ("web",))
    pods = [
        replace(POD, name="a", labels={"app": "web", "tier": "1"}),
        replace(POD, name="b", labels={"app": "web"}),
        replace(POD, name="c", labels={"app": "db"}),
        replace(POD, name="d", labels={"app": "web"}, namespace="elsewhere", job=None),
    ]
    state = build_state(pods, Registry())

    def selected(*requirements: Requirement, namespaces: tuple[str, ...] | None = ("ns",)) -> list[str]:
        return [task.spec.name for task in state.tasks_selected(PodTerm("", requirements, namespaces))]

    assert selected(web) == ["a", "b"]
    assert selected(web, namespaces=None) == ["a", "b", "d"]
    assert selected(web, Requirement("tier", "Exists")) == ["a"]
    assert selected() == ["a", "b", "c"]
    assert state.tasks_selected(PodTerm("", None, ("ns",))) == []


def test_the_version_of_pods_grows_with_news_only() -> None:
    state = build_state([POD], Registry())
    budget = DisruptionBudget("ns", "b", (), min_available=1)
    seen = [state.pods_version]
    for event in (Changed(POD), Changed(replace(POD, labels={"a": "b"})), Changed(budget)):
        state.apply(event)
        seen.append(state.pods_version)
    for event in (Gone(DisruptionBudget, "ns/b"), Gone(TaskSpec, "ns/t"), Gone(TaskSpec, "ns/t")):
        state.apply(event)
        seen.append(state.pods_version)
    # the same pod again: no news; labels, a budget, that it is gone, the pod gone: news; gone again: none
    assert [after > before for before, after in pairwise(seen)] == [
        False,
        True,
        True,
        True,
        True,
        False,
    ]
