from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.identity import KUBESIM, ServerIdentity
from kubesim.kubelet.pod_behavior import PodBehavior, PodBehaviorError, read_behavior


def pod(labels=None, **said):
    about = {"annotations": {f"kubesim.dev/{key.replace('_', '-')}": value for key, value in said.items()}}
    return {"metadata": about | ({"labels": labels} if labels else {})}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({}, PodBehavior()),
        ({"run_seconds": "30"}, PodBehavior(30.0)),
        ({"run_seconds": "0.5"}, PodBehavior(0.5)),
        ({"run_seconds": "0"}, PodBehavior(0.0)),
        # Without a run time it fails as soon as it has started.
        ({"fail": "true"}, PodBehavior(0.0, 1)),
        ({"fail": "True"}, PodBehavior(0.0, 1)),
        ({"fail": "false"}, PodBehavior()),
        ({"fail": "0", "run_seconds": "5"}, PodBehavior(5.0)),
        ({"fail": "137", "run_seconds": "5"}, PodBehavior(5.0, 137)),
        ({"fail": "true after 3"}, PodBehavior(3.0, 1)),
        ({"fail": "2 after 3", "run_seconds": "5"}, PodBehavior(3.0, 2)),
        # It has ended before it could fail.
        ({"fail": "2 after 5", "run_seconds": "5"}, PodBehavior(5.0)),
        ({"stop_seconds": "2"}, PodBehavior(stop_seconds=2.0)),
    ],
)
def test_behavior_annotations(said, meant):
    assert read_behavior(pod(**said), KUBESIM) == meant


def test_behavior_label_is_used_without_annotation():
    assert read_behavior(pod(labels={"kubesim.dev/run-seconds": "7"}), KUBESIM) == PodBehavior(7.0)
    assert read_behavior(pod(labels={"kubesim.dev/run-seconds": "7"}, run_seconds="8"), KUBESIM) == PodBehavior(8.0)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"run_seconds": "5m"}, "kubesim.dev/run-seconds: '5m' has no number of seconds; write for example 30, or 0.5"),
        ({"run_seconds": "-1"}, "has no number of seconds"),
        ({"run_seconds": "nan"}, "has no number of seconds"),
        ({"run_seconds": ""}, "has no number of seconds"),
        ({"fail": "256"}, "kubesim.dev/fail: '256' is not known; write true, or an exit code from 1 to 255"),
        ({"fail": "often"}, "is not known"),
        ({"fail": "1 after noon"}, "kubesim.dev/fail: '1 after noon' has no number of seconds"),
        ({"stop_seconds": "soon"}, "kubesim.dev/stop-seconds: 'soon'"),
    ],
)
def test_malformed_behavior_annotation_is_refused(said, complaint):
    with pytest.raises(PodBehaviorError) as refused:
        read_behavior(pod(**said), KUBESIM)
    assert complaint in str(refused.value)


@given(st.text(max_size=12), st.text(max_size=12), st.text(max_size=12))
def test_any_text_is_understood_or_refused(run, fail, stop):
    try:
        found = read_behavior(pod(run_seconds=run, fail=fail, stop_seconds=stop), KUBESIM)
    except PodBehaviorError:
        return
    assert 0 <= found.exit_code <= 255
    assert found.seconds is None or found.seconds >= 0


def test_annotations_are_in_the_domain_of_the_product():
    acme = ServerIdentity(domain="acme.example")
    annotated = {"metadata": {"annotations": {"acme.example/run-seconds": "7", "kubesim.dev/run-seconds": "8"}}}
    assert read_behavior(annotated, acme) == PodBehavior(7.0)
