"""Nodes that are cordoned, lost and deleted, through the real API."""

from __future__ import annotations

import asyncio

from tests.support.simulated import cluster, eventually, run

STAYS = [{"operator": "Exists"}]


def taints(c, name="node-000"):
    found = c.node(name)["spec"].get("taints") or []
    return sorted(f"{t['key'].removeprefix('node.kubernetes.io/')}:{t['effect']}" for t in found)


def ready(c, name="node-000"):
    return next(e["status"] for e in c.node(name)["status"]["conditions"] if e["type"] == "Ready")


def annotate(value):
    def edit(node):
        node["metadata"]["annotations"] = {"kubesim.dev/lost": value} if value else {}

    return edit


def test_cordon_and_uncordon():
    async def scenario():
        async with cluster() as c:
            await c.api.modify("nodes", "", "node-000", lambda n: n["spec"].update(unschedulable=True))
            await eventually(lambda: taints(c) == ["unschedulable:NoSchedule"])
            await c.api.modify("nodes", "", "node-000", lambda n: n["spec"].pop("unschedulable"))
            await eventually(lambda: taints(c) == [])

    run(scenario())


def test_a_lost_node_becomes_unknown_its_pods_are_evicted_and_it_recovers():
    async def scenario():
        async with cluster(2) as c:
            await c.run_pod("goes", terminationGracePeriodSeconds=1)
            await c.run_pod("stays", tolerations=STAYS)
            await c.run_pod("elsewhere", "node-001")
            await eventually(lambda: all(c.phase(n) == "Running" for n in ("goes", "stays", "elsewhere")))
            await c.api.modify("nodes", "", "node-000", annotate("true"))
            await eventually(lambda: ready(c) == "Unknown")
            await eventually(lambda: taints(c) == ["unreachable:NoExecute", "unreachable:NoSchedule"])
            # Pods tolerate it for 300 seconds, unless they say otherwise; then they are Terminating, and stay so.
            await eventually(lambda: "deletionTimestamp" in c.pod("goes")["metadata"])
            await asyncio.sleep(0.1)
            while_lost = c.pod("goes"), c.pod("stays"), c.pod("elsewhere")
            await c.api.modify("nodes", "", "node-000", annotate(None))
            await eventually(lambda: ready(c) == "True" and taints(c) == [] and c.pod("goes") is None)
            await eventually(lambda: "deletionTimestamp" not in c.pod("stays")["metadata"])
            return while_lost, c.phase("stays")

    (goes, stays, elsewhere), after = run(scenario())
    disrupted = next(e for e in goes["status"]["conditions"] if e["type"] == "DisruptionTarget")
    assert disrupted["reason"] == "DeletionByTaintManager"
    assert "deletionTimestamp" not in stays["metadata"]
    assert "deletionTimestamp" not in elsewhere["metadata"]
    states = [next(e["status"] for e in p["status"]["conditions"] if e["type"] == "Ready") for p in (stays, elsewhere)]
    assert states == ["False", "True"]
    assert after == "Running"


def test_a_ready_pod_of_a_node_that_was_lost_is_ready_again():
    async def scenario():
        async with cluster() as c:
            await c.run_pod("p", tolerations=STAYS)
            await eventually(lambda: c.phase("p") == "Running")

            def is_ready():
                return next(e["status"] for e in c.pod("p")["status"]["conditions"] if e["type"] == "Ready")

            await c.api.modify("nodes", "", "node-000", annotate("true"))
            await eventually(lambda: is_ready() == "False")
            await c.api.modify("nodes", "", "node-000", annotate(None))
            await eventually(lambda: is_ready() == "True")

    run(scenario())


def test_lost_node_grace_period_starts_when_it_is_lost():
    async def scenario():
        async with cluster(speed=50) as c:  # 50 seconds take one
            await asyncio.sleep(c.clock.real(60))  # nobody has heard of it for longer than that
            lost = c.clock.now()
            await c.api.modify("nodes", "", "node-000", annotate("true"))
            await eventually(lambda: ready(c) == "Unknown")
            return (c.clock.now() - lost) * 50

    assert run(scenario()) >= 50


def test_pods_of_missing_node_are_removed_after_quarantine():
    async def scenario():
        async with cluster(0, speed=40) as c:  # 40 seconds take one
            stayed = []
            for name in ("first", "second"):
                bound = c.clock.now()
                await c.run_pod(name, "nowhere")
                await eventually(lambda name=name: c.pod(name) is None)
                stayed.append((c.clock.now() - bound) * 40)
            return stayed

    assert min(run(scenario())) >= 40


def test_no_execute_taint_of_a_user_evicts_pods():
    async def scenario():
        async with cluster() as c:
            await c.run_pod("goes", terminationGracePeriodSeconds=0)
            await c.run_pod("stays", tolerations=STAYS)
            await eventually(lambda: c.phase("goes") == c.phase("stays") == "Running")
            fire = [{"key": "fire", "effect": "NoExecute"}]
            await c.api.modify("nodes", "", "node-000", lambda n: n["spec"].update(taints=fire))
            await eventually(lambda: c.pod("goes") is None)
            return c.phase("stays")

    assert run(scenario()) == "Running"


def test_pods_of_a_node_that_is_deleted_are_removed():
    async def scenario():
        async with cluster(2) as c:
            await c.run_pod("p")
            await c.run_pod("q", "node-001")
            await c.run_pod("never", "nowhere")
            await eventually(lambda: c.phase("p") == c.phase("q") == "Running")
            await c.api.delete("nodes", "", "node-000")
            await eventually(lambda: c.pod("p") is None and c.pod("never") is None)
            lease = ("leases.coordination.k8s.io", "kube-node-lease")
            await eventually(lambda: c.api.read(*lease, "node-000") is None)
            return c.phase("q"), c.api.read(*lease, "node-001") is not None

    assert run(scenario()) == ("Running", True)


def test_node_that_is_not_simulated_is_ready_while_its_lease_is_renewed():
    async def renewed_in_time(c, name):
        """Renew the lease of a new node 8 times, every 10 seconds: more than the 50 that it may be silent."""
        well = [{"type": "Ready", "status": "True", "reason": "x", "message": "y"}]
        node = {"metadata": {"name": name, "annotations": {"kubesim.dev/simulated": "false"}}}
        longest, last = 0.0, c.clock.steady()
        await c.api.create("nodes", "", {**node, "status": {"conditions": well}})
        lease = {"metadata": {"name": name}, "spec": {"holderIdentity": name}}
        await c.api.create("leases.coordination.k8s.io", "kube-node-lease", lease)
        for number in range(8):
            await asyncio.sleep(c.clock.real(10))

            def renew(found, number=number):
                found["spec"]["leaseTransitions"] = number

            await c.api.modify("leases.coordination.k8s.io", "kube-node-lease", name, renew)
            longest, last = max(longest, c.clock.steady() - last), c.clock.steady()
        return longest < c.clock.real(40)

    async def scenario():
        async with cluster(0) as c:
            # At a hundred times the speed, a pause of half a second is 50: on a busy machine it takes another node.
            for number in range(100):
                if await renewed_in_time(c, name := f"theirs-{number}"):
                    break
            alive = ready(c, name)
            await eventually(lambda: ready(c, name) == "Unknown")
            return alive

    assert run(scenario()) == "True"
