"""Which pods Endpoints and EndpointSlices list, and with which ports."""

from __future__ import annotations

from typing import Any

from kubesim.controllers.service_endpoints import endpoint_subsets, group_by_ports, slice_contents, slice_labels


def service(port: Any = 8080, **spec: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": port}]
    whole = {"type": "ClusterIP", "clusterIP": "172.20.0.1", "selector": {"app": "web"}, "ports": ports, **spec}
    return {"metadata": {"name": "web", "namespace": "default", "uid": "s"}, "spec": whole}


def pod(
    name: str, *, ready: bool = True, leaving: bool = False, phase: str = "Running", port: int = 8080, **spec: Any
) -> dict[str, Any]:
    about: dict[str, Any] = {"name": name, "namespace": "default", "uid": f"uid-of-{name}"}
    if leaving:
        about["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    container = {"name": "main", "ports": [{"name": "web", "containerPort": port, "protocol": "TCP"}]}
    status = {
        "phase": phase,
        "podIP": f"10.0.0.{ord(name)}",
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    return {"metadata": about, "spec": {"nodeName": "n", "containers": [container], **spec}, "status": status}


def ips(addresses: list[Any]) -> list[str]:
    return [address["ip"] for address in addresses]


def subsets(of: dict[str, Any], *pods: Any) -> list[Any]:
    return endpoint_subsets(of, group_by_ports(of, pods))


def slices(of: dict[str, Any], *pods: Any) -> list[Any]:
    return slice_contents(of, group_by_ports(of, pods))


def test_ready_and_unready_pods_are_listed_apart() -> None:
    (found,) = subsets(service(), pod("b"), pod("a"), pod("c", ready=False), pod("d", leaving=True))
    assert ips(found["addresses"]) == ["10.0.0.97", "10.0.0.98"]
    assert ips(found["notReadyAddresses"]) == ["10.0.0.99"]
    assert found["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert found["addresses"][0]["targetRef"] == {
        "kind": "Pod", "namespace": "default", "name": "a", "uid": "uid-of-a"
    }  # fmt: skip


def test_pods_without_address_and_finished_pods_are_left_out() -> None:
    waiting = pod("a")
    del waiting["status"]["podIP"]
    assert subsets(service(), waiting, pod("b", phase="Succeeded"), pod("c", phase="Failed")) == []


def test_unready_addresses_are_published_where_the_service_says_so() -> None:
    (found,) = subsets(service(publishNotReadyAddresses=True), pod("a", ready=False))
    assert ips(found["addresses"]) == ["10.0.0.97"]
    (listed,) = slices(service(publishNotReadyAddresses=True), pod("a", ready=False))
    assert listed["endpoints"][0]["conditions"] == {"ready": True, "serving": False, "terminating": False}


def test_named_ports_are_looked_up_in_each_pod() -> None:
    found = subsets(service("web"), pod("a", port=80), pod("b", port=81), pod("c", port=80))
    assert [(subset["ports"][0]["port"], len(subset["addresses"])) for subset in found] == [(80, 2), (81, 1)]
    assert subsets(service("none-such"), pod("a")) == []


def test_terminating_pods_stay_in_slices() -> None:
    (found,) = slices(service(), pod("a", leaving=True))
    assert found["endpoints"][0]["conditions"] == {"ready": False, "serving": True, "terminating": True}


def test_hostname_is_given_to_pods_of_the_service_domain() -> None:
    (found,) = slices(service(), pod("a", hostname="a-0", subdomain="web"), pod("b", hostname="b-0", subdomain="other"))
    assert [endpoint.get("hostname") for endpoint in found["endpoints"]] == ["a-0", None]


def test_slices_hold_a_hundred_endpoints() -> None:
    many = [pod(chr(200 + number)) for number in range(120)]
    assert [len(found["endpoints"]) for found in slices(service(), *many)] == [100, 20]
    assert slices(service()) == [{"ports": [], "endpoints": []}]


def test_headless_services_are_labelled() -> None:
    assert "service.kubernetes.io/headless" not in slice_labels(service())
    assert slice_labels(service(clusterIP="None"))["service.kubernetes.io/headless"] == ""
    assert slice_labels(service())["kubernetes.io/service-name"] == "web"
