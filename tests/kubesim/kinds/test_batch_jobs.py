"""The jobs of Kubernetes itself, as a real kube-apiserver 1.36 answers."""

from typing import Any

import pytest

from kubesim.kinds.jobs import jobs
from tests.kubesim.kinds.strategy_writes import cells, create, headings, named, rejection_message, update

RESOURCE = jobs()
LABELS = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")


def job(template: dict[str, Any] | None = None, **spec: object) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "x"}]}
    return named("j", spec={"template": template or {"spec": pod}, **spec})


def test_defaults() -> None:
    found = create(RESOURCE, job())
    spec = found["spec"]
    uid = found["metadata"]["uid"]
    assert {key: spec[key] for key in spec if key not in {"template", "selector"}} == {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "manualSelector": False,
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    }
    assert found["status"] == {}
    assert spec["selector"] == {"matchLabels": {LABELS[0]: uid}}
    assert spec["template"]["metadata"]["labels"] == dict(zip(LABELS, (uid, "j", uid, "j"), strict=True))
    assert found["metadata"]["labels"] == spec["template"]["metadata"]["labels"]
    pod = spec["template"]["spec"]
    assert (pod["schedulerName"], pod["containers"][0]["imagePullPolicy"]) == ("default-scheduler", "Always")
    assert "enableServiceLinks" not in pod


def test_labels_of_its_own_stay_alone() -> None:
    found = create(RESOURCE, {**job(), "metadata": {"name": "j", "labels": {"a": "b"}}})
    assert found["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("given", "derived"),
    [
        ({"parallelism": 3}, {"parallelism": 3, "completions": None, "backoffLimit": 6}),
        ({"completions": 3}, {"parallelism": 1, "completions": 3, "backoffLimit": 6}),
        (
            {"completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1},
            {"parallelism": 1, "completions": 3, "backoffLimit": 2147483647},
        ),
        (
            {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "A"}]}]}},
            {"podReplacementPolicy": "Failed"},
        ),
    ],
)
def test_defaults_that_follow(given: dict[str, object], derived: dict[str, object]) -> None:
    spec = create(RESOURCE, job(**given))["spec"]
    assert {key: spec.get(key) for key in derived} == derived


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"parallelism": -1}, "spec.parallelism: Invalid value: -1: must be greater than or equal to 0"),
        ({"completions": -2}, "spec.completions: Invalid value: -2: must be greater than or equal to 0"),
        ({"ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or"),
        (
            {"completionMode": "Odd"},
            'spec.completionMode: Unsupported value: "Odd": supported values: "NonIndexed", "Indexed"',
        ),
        ({"maxFailedIndexes": 2}, "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified"),
        ({"maxFailedIndexes": 2}, "spec.maxFailedIndexes: Invalid value: 2: requires indexed completion mode"),
        ({"managedBy": "x"}, 'spec.managedBy: Invalid value: "x": must be a domain-prefixed path (such as'),
        (
            {"podFailurePolicy": {"rules": [{"action": "X", "onExitCodes": {"operator": "In", "values": [1]}}]}},
            'spec.podFailurePolicy.rules[0].action: Unsupported value: "X"',
        ),
        (
            {"podFailurePolicy": {"rules": [{"action": "Count"}]}},
            "specifying one of OnExitCodes and OnPodConditions is",
        ),
        ({"podReplacementPolicy": "x"}, 'spec.podReplacementPolicy: Unsupported value: "x"'),
        ({"selector": {"matchLabels": {"a": "b"}}}, "`selector` not auto-generated"),
        ({"selector": {"matchLabels": {"a": "b"}}}, "`selector` does not match template `labels`"),
        (
            {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}},
            "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
        ),
        ({"template": {"spec": {}}}, "spec.template.spec.containers: Required value"),
        (
            {"template": {"spec": {"containers": [{"name": "a", "image": "x"}]}}},
            'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
        ),
        (
            {
                "template": {
                    "metadata": {"labels": {"job-name": "other"}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "x"}]},
                }
            },
            "must be 'j'",
        ),
    ],
)
def test_refused(spec: dict[str, Any], words: str) -> None:
    assert words in rejection_message(create, RESOURCE, job(**spec))


def test_a_selector_by_hand() -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "x"}]},
    }
    found = create(RESOURCE, job(template, manualSelector=True, selector={"matchLabels": {"a": "b"}}))
    assert found["spec"]["template"]["metadata"]["labels"] == {"a": "b"}


def test_mutable_job_fields_can_be_updated() -> None:
    found = create(RESOURCE, job())
    changes = {"parallelism": 3, "backoffLimit": 2, "suspend": True, "ttlSecondsAfterFinished": 3}
    after = update(RESOURCE, found, {"spec": changes})
    assert {key: after["spec"][key] for key in changes} == changes


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"completions": 3}, "spec.completions: Invalid value: 3: field is immutable"),
        ({"completionMode": "Indexed"}, 'spec.completionMode: Invalid value: "Indexed": field is immutable'),
        ({"managedBy": "a/b"}, 'spec.managedBy: Invalid value: "a/b": field is immutable'),
        ({"selector": {"matchLabels": {"a": "b"}}}, "spec.selector: Invalid value: "),
        ({"template": {"spec": {"nodeSelector": {"a": "b"}}}}, "spec.template: Invalid value: "),
    ],
)
def test_immutable_job_fields_reject_updates(change: dict[str, Any], words: str) -> None:
    assert words in rejection_message(update, RESOURCE, create(RESOURCE, job()), {"spec": change})


def test_suspended_job_template_is_mutable_until_job_starts() -> None:
    found = create(RESOURCE, job(suspend=True))
    move = {"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"nodeSelector": {"a": "b"}}}}}
    assert update(RESOURCE, found, move)["spec"]["template"]["spec"]["nodeSelector"] == {"a": "b"}
    found["status"]["startTime"] = "2026-11-15T12:00:00Z"
    assert "spec.template: Invalid value" in rejection_message(update, RESOURCE, found, move)


def test_indexes_and_parallelism_change_together() -> None:
    found = create(RESOURCE, job(completionMode="Indexed", completions=3))
    assert "spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism" in (
        rejection_message(update, RESOURCE, found, {"spec": {"completions": 5}})
    )
    assert update(RESOURCE, found, {"spec": {"completions": 5, "parallelism": 5}})["spec"]["completions"] == 5


def test_columns() -> None:
    found = create(RESOURCE, job())
    assert [name for name, _, _ in headings(RESOURCE)] == [
        "Name", "Status", "Completions", "Duration", "Age", "Containers", "Images", "Selector",
    ]  # fmt: skip
    row = cells(RESOURCE, found)
    uid = found["metadata"]["uid"]
    assert [*row[:4], *row[5:]] == ["j", "Running", "0/1", "", "a", "x", f"{LABELS[0]}={uid}"]
    status = {
        "startTime": "2026-11-15T12:00:00Z",
        "completionTime": "2026-11-15T12:10:00Z",
        "succeeded": 1,
        "conditions": [{"type": "Complete", "status": "True"}],
    }
    found = update(RESOURCE, found, {"status": status}, sub="status")
    assert cells(RESOURCE, found)[1:4] == ["Complete", "1/1", "10m"]
    assert "status.active: Invalid value: -1" in (
        rejection_message(update, RESOURCE, found, {"status": {"active": -1}}, sub="status")
    )


@pytest.mark.parametrize(
    ("parallelism", "shown"),
    [(1, "0/1"), (3, "0/1 of 3")],
)
def test_completions_of_a_work_queue(parallelism: int, shown: str) -> None:
    assert cells(RESOURCE, create(RESOURCE, job(parallelism=parallelism)))[2] == shown
