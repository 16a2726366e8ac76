"""Shapes: alike means alike wherever it counts, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.label_selector import Requirement
from pumice.engine.events import Changed, Event, Gone
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.task_shapes import ShapeTable, selects
from pumice.model.specs import Constraints, JobSpec, NodeSpec, PodTerm, Spread, TaskSpec, TaskStatus, Toleration

PLAIN = TaskSpec("ns", "t", (2, 0, 1))
WEB = (Requirement("app", "In", ("web",)),)
AWAY_FROM_WEB = Constraints(anti_affinity=(PodTerm("zone", WEB),))


def alike(a: TaskSpec, b: TaskSpec, table: ShapeTable | None = None) -> bool:
    table = table or ShapeTable()
    for spec in (a, b):
        table.note_term(spec.constraints)  # what some selector mentions is part of who a pod is
    return table.of(a) is table.of(b)


@pytest.mark.parametrize(
    "other",
    [
        {"name": "u"},
        {"namespace": "elsewhere"},
        {"labels": {"app": "web"}},
        {"priority": 9},
        {"job": "ns/k"},
        {"created": 5},
        {"role": "ps"},
        {"request": (2, 0, 1, 0, 0)},  # a vector from before or after a resource was named
    ],
    ids=lambda other: next(iter(other)),
)
def test_tasks_with_equal_placement_requirements_share_a_shape(other: dict[str, object]) -> None:
    assert alike(PLAIN, replace(PLAIN, **other))


@pytest.mark.parametrize(
    "other",
    [
        {"request": (3, 0, 1)},
        {"request": (2, 0, 1, 0, 1)},
        {"constraints": Constraints(node_selector=(("disk", "ssd"),))},
        {"constraints": Constraints(tolerations=(Toleration("gpu", "Exists"),))},
        {"constraints": Constraints(ports=(("TCP", "0.0.0.0", 80),))},
    ],
    ids=["amount", "resource", "selector", "toleration", "port"],
)
def test_tasks_with_different_placement_requirements_have_different_shapes(other: dict[str, object]) -> None:
    assert not alike(PLAIN, replace(PLAIN, **other))


def test_an_ask_leaves_out_places() -> None:
    shape = ShapeTable().of(replace(PLAIN, request=(2, 0, 1, 4)))
    assert shape.items == ((0, 2), (2, 1), (3, 4)) and shape.ask == ((0, 2), (3, 4))
    assert not shape.best_effort and ShapeTable().of(replace(PLAIN, request=(0, 0, 1))).best_effort


@pytest.mark.parametrize(
    "constraints",
    [
        AWAY_FROM_WEB,
        Constraints(affinity=(PodTerm("zone", WEB),)),
        Constraints(spread=(Spread("zone", 1, WEB),)),
    ],
    ids=["anti-affinity", "affinity", "spread"],
)
def test_shape_of_task_with_pod_terms_includes_labels_and_namespace(constraints: Constraints) -> None:
    one = replace(PLAIN, constraints=constraints, labels={"app": "web"})
    assert not alike(one, replace(one, labels={"app": "db"}))
    assert not alike(one, replace(one, namespace="elsewhere"))
    assert alike(one, replace(one, name="u"))


@pytest.mark.parametrize(
    ("term", "labels", "concerned"),
    [
        (PodTerm("zone", WEB), {"app": "web"}, True),
        (PodTerm("zone", WEB), {"app": "db"}, False),
        (PodTerm("zone", WEB, ("other",)), {"app": "web"}, False),
        (PodTerm("zone", WEB, ("ns",)), {"app": "web"}, True),
        (PodTerm("zone", ()), {}, True),
        (PodTerm("zone", None), {"app": "web"}, False),
        (PodTerm("zone", (Requirement("app", "Exists"),)), {"app": "web"}, True),
        (PodTerm("zone", (Requirement("app", "NotIn", ("db",)),)), {}, True),
        (PodTerm("zone", (Requirement("app", "In", ("web", "db")),)), {"app": "db"}, True),
    ],
)
def test_shape_of_task_selected_by_anti_affinity_includes_identity(
    term: PodTerm, labels: dict[str, str], concerned: bool
) -> None:
    table = ShapeTable()
    assert table.note_term(Constraints(anti_affinity=(term,))) == ([term], bool(term.selector))
    assert table.note_term(Constraints(anti_affinity=(term,))) == ([], False)
    spec = replace(PLAIN, labels=labels)
    assert (table.of(spec).identity is not None) is concerned is selects(term, "ns", labels)


@given(
    st.lists(
        st.builds(
            TaskSpec,
            st.just("ns"),
            st.sampled_from(["a", "b", "c", "d"]),
            st.just((1, 0, 1)),
            st.just("ns/j"),
            labels=st.sampled_from([{"app": "web"}, {"app": "db"}, {}]),
            constraints=st.sampled_from([Constraints(), Constraints(), AWAY_FROM_WEB]),
        ).map(Changed)
        | st.sampled_from([Gone(TaskSpec, "ns/a"), Gone(TaskSpec, "ns/b")]),
        max_size=12,
    )
)
def test_a_waiting_task_always_has_the_shape_it_would_get_now(history: list[Event]) -> None:
    state = ClusterState()
    for event in [Changed(NodeSpec("n", (9, 9, 9))), Changed(JobSpec("ns", "j", "q")), *history]:
        state.apply(event)
        for task in state.tasks.values():
            assert task.status is TaskStatus.PENDING and task.shape is state.shapes.of(task.spec)
        state.validate()
