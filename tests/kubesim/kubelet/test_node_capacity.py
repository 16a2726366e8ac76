from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import Registry
from kubesim.kubelet.node_capacity import NodeCapacity, requested_vector


def node(cidr="10.0.7.0/24", **allocatable):
    return {"spec": {"podCIDR": cidr}, "status": {"allocatable": allocatable}}


def pod(**requests):
    requests = {name.replace("gpu", "nvidia.com/gpu"): amount for name, amount in requests.items()}
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}


@pytest.mark.parametrize(
    ("wanted", "lack"),
    [
        ({"cpu": "2"}, None),
        ({"cpu": "2500m"}, None),  # 1500 of 4000 are held, 2500 are left
        ({"cpu": "2501m"}, ("cpu", 2501, 1500, 4000)),
        ({"memory": "5Gi"}, ("memory", 5 * 2**30, 2**30, 4 * 2**30)),
        ({"gpu": "2"}, ("nvidia.com/gpu", 2, 1, 2)),
    ],
)
def test_shortage_names_the_missing_resource(wanted, lack):
    registry = Registry()
    room = NodeCapacity(registry)
    room.resize(node(cpu="4", memory="4Gi", pods="10", **{"nvidia.com/gpu": "2"}))
    room.reserve(requested_vector(pod(cpu="1500m", memory="1Gi", gpu="1"), registry))
    assert room.shortage(requested_vector(pod(**wanted), registry)) == lack


def test_pods_are_counted_and_unknown_extended_resources_are_not():
    registry = Registry()
    room = NodeCapacity(registry)
    room.resize(node(cpu="4", memory="4Gi", pods="1"))
    assert room.shortage(requested_vector(pod(gpu="1"), registry)) is None
    room.reserve(requested_vector(pod(), registry))
    lack = room.shortage(requested_vector(pod(), registry))
    assert str(lack) == "Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1"


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=80))
def test_addresses_are_unique_while_they_last_and_room_comes_back(history):
    registry = Registry()
    room = NodeCapacity(registry)
    room.resize(node("10.0.7.0/28", cpu="64", memory="4Gi", pods="100"))
    request = requested_vector(pod(cpu="1"), registry)
    held: list[str] = []
    for arrives, which in history:
        if arrives and len(held) < 13:  # 16 addresses without the network, the node and the broadcast
            address = room.new_address()
            assert address not in held
            assert address.startswith("10.0.7.")
            room.reserve(request, address)
            held.append(address)
        elif held:
            room.release(request, held.pop(which % len(held)))
    whole = requested_vector(pod(cpu=str(64 - len(held))), registry)
    more = requested_vector(pod(cpu=str(65 - len(held))), registry)
    assert room.shortage(whole) is None
    assert room.shortage(more) is not None
