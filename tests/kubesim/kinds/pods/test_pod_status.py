"""The status of pods and their deletion, as a real kube-apiserver 1.36 treats them."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.kinds.pods import names
from kubesim.registry.registry import Object
from tests.kubesim.kinds.pods.pod_specs import RESOURCE, created
from tests.kubesim.kinds.strategy_writes import rejection_message, update

ENDED = {"name": "c", "state": {"terminated": {"exitCode": 0}}}
FAILED = {"name": "c", "state": {"terminated": {"exitCode": 1}}}
RUNNING = {"name": "c", "state": {"running": {}}}


def test_the_class_of_service_stays() -> None:
    old = created()
    assert update(RESOURCE, old, {"status": {"qosClass": None}}, sub="status")["status"] == old["status"]
    words = rejection_message(update, RESOURCE, old, {"status": {"qosClass": "Burstable"}}, sub="status")
    assert words == '422 Pod "p" is invalid: status.qosClass: Invalid value: "Burstable": field is immutable'


@pytest.mark.parametrize(
    ("written", "address", "addresses"),
    [
        ({"podIP": "10.0.0.1"}, "10.0.0.1", ["10.0.0.1"]),
        ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}]}, "10.0.0.1", ["10.0.0.1", "::1"]),
        ({"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.1"}]}, "10.0.0.2", ["10.0.0.2"]),
    ],
)
def test_addresses_agree(written: Object, address: str, addresses: list[str]) -> None:
    status = update(RESOURCE, created(), {"status": written}, sub="status")["status"]
    assert (status["podIP"], [found["ip"] for found in status["podIPs"]]) == (address, addresses)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (
            {"podIP": "x"},
            'status.podIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        ),
        (
            {"podIPs": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.2"}]},
            'status.podIPs: Invalid value: [{"ip":"1.1.1.1"},{"ip":"1.1.1.2"}]: may specify no more than one IP for '
            "each IP family",
        ),
        ({"observedGeneration": -1}, "status.observedGeneration: Invalid value: -1: must be a non-negative integer"),
    ],
)
def test_refused(written: Object, words: str) -> None:
    assert (
        rejection_message(update, RESOURCE, created(), {"status": written}, sub="status")
        == f'422 Pod "p" is invalid: {words}'
    )


def test_container_status_fields_default_to_zero_values() -> None:
    status = update(RESOURCE, created(), {"status": {"containerStatuses": [{"name": "c"}]}}, sub="status")["status"]
    assert status["containerStatuses"] == [{"name": "c", "ready": False, "restartCount": 0, "image": "", "imageID": ""}]


def test_a_bound_pod_is_not_nominated() -> None:
    bound = created(nodeName="n1")
    words = rejection_message(update, RESOURCE, bound, {"status": {"nominatedNodeName": "n2"}}, sub="status")
    assert words.endswith("may not be set on pods that are already bound to a node")
    update(RESOURCE, created(), {"status": {"nominatedNodeName": "n2"}}, sub="status")


@pytest.mark.parametrize(
    ("policy", "before", "after", "allowed"),
    [
        ("Never", ENDED, RUNNING, False),
        ("Never", FAILED, RUNNING, False),
        ("Never", FAILED, ENDED, True),
        ("OnFailure", ENDED, RUNNING, False),
        ("OnFailure", FAILED, RUNNING, True),
        ("Always", ENDED, RUNNING, True),
    ],
)
def test_the_dead_stay_dead(policy: str, before: Object, after: Object, allowed: bool) -> None:
    old = created(restartPolicy=policy)
    old["status"]["containerStatuses"] = [before]
    change = {"status": {"containerStatuses": [after]}}
    if allowed:
        update(RESOURCE, old, change, sub="status")
    else:
        assert rejection_message(update, RESOURCE, old, change, sub="status") == (
            '422 Pod "p" is invalid: status.containerStatuses[0].state: Forbidden: may not be transitioned to '
            "non-terminated state"
        )


@pytest.mark.parametrize(
    ("node", "phase", "asked", "grace"),
    [
        ("", "Pending", None, 0),
        ("", "Pending", 60, 0),
        ("n1", "Running", None, 30),
        ("n1", "Pending", None, 30),
        ("n1", "Running", 60, 60),
        ("n1", "Running", 0, 0),
        ("n1", "Running", -1, 1),
        ("n1", "Succeeded", None, 0),
        ("n1", "Failed", 60, 0),
    ],
)
def test_grace(node: str, phase: str, asked: int | None, grace: int) -> None:
    pod = created(nodeName=node)
    pod["status"]["phase"] = phase
    assert RESOURCE.strategy.grace(pod, asked) == grace


@given(
    st.one_of(st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){3}", fullmatch=True), st.text("0123456789.:af/% ", max_size=12))
)
def test_an_address_is_what_the_library_takes_for_one(text: str) -> None:
    try:
        expected: int | None = ip_address(text).version
    except ValueError:
        expected = None
    assert names.version(text) == expected
