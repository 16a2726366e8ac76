"""The check of a takeover from Volcano: what is lost, what differs, what stays."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pumice.admission.volcano_support import ACTIONS, ANNOTATIONS, KINDS, PLUGINS, Support
from pumice.engine.config.scheduler_config import DEFAULT_CONFIG
from pumice.migrate.report import MigrationReport, Severity
from pumice.migrate.source_objects import SourceObjects, supported_kinds
from pumice.migrate.volcano_check import check_volcano
from pumice.migrate.volcano_config_check import CONFIGURATION

TASK = {"name": "a", "replicas": 1, "template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}


def checked(*documents: dict[str, Any], config: str = "") -> MigrationReport:
    objects = SourceObjects()
    for one in documents:
        objects.add(one)
    if config:
        objects.configurations["conf"] = config
    return check_volcano(objects)


def queue(name: str, **spec: Any) -> dict[str, Any]:
    about = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return {**about, "metadata": {"name": name}, "spec": spec}


def job(name: str, *, phase: str = "Running", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team", "annotations": annotations or {}},
        "spec": {"queue": "default", "minAvailable": 1, "tasks": [TASK], **spec},
        "status": {"state": {"phase": phase}},
    }


def pod(name: str, scheduler: str, **annotations: str) -> dict[str, Any]:
    about = {"name": name, "namespace": "team", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": {"schedulerName": scheduler}}


def test_supported_objects_lose_nothing():
    report = checked(queue("root", weight=1, reclaimable=False), queue("a", weight=2), job("x", queue="a"))
    assert report.lost == []
    assert dict(report.checked) == {"Queue": 2, "Job": 1}


@given(st.sampled_from(sorted(supported_kinds())))
def test_table_decides_which_kinds_are_orphaned(group_kind: tuple[str, str]) -> None:
    group, kind = group_kind
    one = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "it", "namespace": "team"}}
    missing = supported_kinds()[group_kind].support is Support.MISSING
    orphaned = [finding for finding in checked(one).lost if "no controller of Pumice handles" in finding.message]
    assert [finding.objects for finding in orphaned] == ([["team/it"]] if missing else [])


def test_every_kind_of_the_table_can_be_parsed():
    assert len(supported_kinds()) == len(KINDS)


def test_unknown_kind_of_volcano_is_lost():
    one = {"apiVersion": "new.volcano.sh/v1", "kind": "Novelty", "metadata": {"name": "it"}}
    assert [str(finding) for finding in checked(one).lost] == [
        "Novelty it: no controller of Pumice handles new.volcano.sh Novelty"
    ]


def test_annotations_without_effect_are_lost_for_unfinished_jobs_only():
    name = next(one.name for one in ANNOTATIONS if one.support is Support.NO_EFFECT)
    report = checked(job("a", annotations={name: "3"}), job("b", phase="Completed", annotations={name: "3"}))
    assert [(finding.kind, finding.objects) for finding in report.lost] == [("Job", ["team/a"])]
    assert name in report.lost[0].message


def test_refused_objects_are_lost():
    report = checked(queue("a", parent="nowhere"), job("x", queue="unknown"), job("y", minAvailable=5))
    said = {(finding.kind, *finding.objects): finding.message for finding in report.lost}
    assert said["Queue", "a"].startswith("admission would refuse it: spec.parent: Not found")
    assert "Not found: queue 'unknown'" in said["Job", "team/x"]
    assert "minAvailable" in said["Job", "team/y"]


def test_a_running_job_in_a_closed_queue_is_not_lost():
    closed = {**queue("a"), "status": {"state": "Closed"}}
    assert checked(closed, job("x", queue="a")).lost == []


def test_pods_of_other_schedulers_are_mentioned():
    report = checked(pod("a", "default-scheduler"), pod("b", "default-scheduler"), pod("c", "volcano"))
    assert report.lost == []
    (finding,) = report.of(Severity.INFO)
    assert finding.message.startswith("2 of scheduler default-scheduler stay with it")


def test_another_name_of_volcanos_scheduler_is_lost():
    template = {"spec": {"containers": [{}, {"args": ["--scheduler-name=volcano", "--scheduler-name", "gpu"]}]}}
    about = {"name": "volcano-scheduler", "namespace": "volcano-system"}
    one = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": {"template": template}}
    (finding,) = checked(one).lost
    assert finding.message == "schedules pods with schedulerName gpu, and Pumice serves pumice, volcano"


def test_all_missing_actions_and_plugins_of_a_configuration_are_listed():
    missing = [one.name for one in (*ACTIONS, *PLUGINS) if one.support is Support.MISSING]
    actions = ", ".join(["allocate", *(one.name for one in ACTIONS if one.name in missing)])
    plugins = "".join(f"  - name: {one.name}\n" for one in PLUGINS if one.name in missing)
    report = checked(config=f'actions: "{actions}"\ntiers:\n- plugins:\n  - name: gang\n{plugins}')
    assert [finding.message.split()[1].rstrip(":") for finding in report.lost] == missing
    assert {finding.kind for finding in report.lost} == {CONFIGURATION}


def test_the_default_configuration_loses_nothing():
    assert checked(config=DEFAULT_CONFIG).lost == []


def test_the_configuration_of_volcanos_installer_loses_nothing():
    report = checked(
        config="""
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
    )
    assert report.lost == []
    assert "plugin proportion: differs" in "\n".join(map(str, report.of(Severity.DIFFERS)))


def test_errors_of_the_loader_are_reported_with_their_line():
    (finding,) = checked(config='actions: "allocate"\ntiers:\n- plugins:\n  - name: gnag\n').lost
    assert "conf:4" in finding.message and 'did you mean "gang"' in finding.message
    (finding,) = checked(config="actions: [").lost
    assert "conf" in finding.message


def test_a_given_configuration_takes_the_place_of_volcanos():
    objects = SourceObjects(configurations={"conf": 'actions: "shuffle"'})
    assert check_volcano(objects).lost
    assert check_volcano(objects, configured=True).lost == []


def test_report_names_three_objects_and_counts_the_rest():
    report = MigrationReport()
    for number in range(5):
        report.add(Severity.LOST, "Job", f"team/{number}", "is gone")
    assert [str(finding) for finding in report.lost] == ["Job team/0, team/1, team/2 and 2 more: is gone"]
