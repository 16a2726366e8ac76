"""Deployments and ReplicaSets through the real API, on one simulated node."""

from __future__ import annotations

from kubesim.controllers.conditions import find_condition
from kubesim.controllers.controller_refs import controller_of
from tests.support.simulated import eventually, run, scheduled
from tests.support.workloads import DEPLOYMENTS, REPLICA_SETS, template

REVISION = "deployment.kubernetes.io/revision"


def deployment(name="d", replicas=3, **spec):
    whole = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(app=name), **spec}
    return {"metadata": {"name": name}, "spec": whole}


def found(c, name="d"):
    return c.api.read(DEPLOYMENTS, "default", name)


def sets(c):
    return sorted(c.api.list(REPLICA_SETS, "default"), key=lambda one: int(one["metadata"]["annotations"][REVISION]))


def sizes(c):
    return [one["spec"]["replicas"] for one in sets(c)]


def pods(c):
    return c.api.list("pods", "default")


def images(c):
    return {one["spec"]["containers"][0]["image"] for one in pods(c)}


def is_done(c, name="d"):
    """What `kubectl rollout status` waits for."""
    one = found(c, name)
    status, wanted = one["status"], one["spec"]["replicas"]
    return (
        status.get("observedGeneration") == one["metadata"]["generation"]
        and status.get("updatedReplicas", 0) == wanted
        and status.get("replicas", 0) == wanted
        and status.get("availableReplicas", 0) == wanted
    )


async def change(c, name="d", **spec):
    await c.api.modify(DEPLOYMENTS, "default", name, lambda one: one["spec"].update(spec))


async def set_image(c, image, name="d"):
    def edit(one):
        one["spec"]["template"]["spec"]["containers"][0]["image"] = image

    await c.api.modify(DEPLOYMENTS, "default", name, edit)


def reasons(c):
    return [event["reason"] for event in c.api.list("events", "default")]


def test_a_deployment_comes_up():
    async def scenario():
        async with scheduled() as c:
            await c.api.create(DEPLOYMENTS, "default", deployment())
            await eventually(lambda: is_done(c))
            (only,) = sets(c)
            await eventually(lambda: "ScalingReplicaSet" in reasons(c) and reasons(c).count("SuccessfulCreate") == 3)
            return found(c), only, pods(c)

    one, only, made = run(scenario())
    assert one["metadata"]["annotations"][REVISION] == "1"
    assert find_condition(one["status"], "Progressing")["reason"] == "NewReplicaSetAvailable"
    assert find_condition(one["status"], "Available")["status"] == "True"
    assert controller_of(only)["name"] == "d"
    assert {controller_of(pod)["name"] for pod in made} == {only["metadata"]["name"]}
    assert {pod["metadata"]["labels"]["pod-template-hash"] for pod in made} == {only["metadata"]["name"][2:]}


def test_deployment_rollout_and_rollback():
    async def scenario():
        async with scheduled() as c:
            await c.api.create(DEPLOYMENTS, "default", deployment(replicas=4))
            await eventually(lambda: is_done(c))
            first = sets(c)[0]
            least, most = 4, 0
            await set_image(c, "web:2")

            def rolled():
                nonlocal least, most
                least = min(least, found(c)["status"].get("availableReplicas", 0))
                most = max(most, sum(sizes(c)))
                return is_done(c)

            await eventually(rolled)
            assert sizes(c) == [0, 4]
            await eventually(lambda: images(c) == {"web:2"})
            await set_image(c, "web:1")
            await eventually(lambda: is_done(c) and sizes(c) == [0, 4])
            return first, sets(c), found(c), least, most

    first, both, one, least, most = run(scenario())
    assert least >= 3 and most <= 5  # 25 % of 4 either way
    assert [each["metadata"]["annotations"][REVISION] for each in both] == ["2", "3"]
    assert both[1]["metadata"]["uid"] == first["metadata"]["uid"]  # the old set, with a new number
    assert one["metadata"]["annotations"][REVISION] == "3"


def test_recreate_waits_until_the_last_old_pod_is_gone():
    async def scenario():
        async with scheduled() as c:
            await c.api.create(DEPLOYMENTS, "default", deployment(strategy={"type": "Recreate"}))
            await eventually(lambda: is_done(c))
            await set_image(c, "web:2")
            seen = []

            def rolled():
                seen.append(images(c))
                return is_done(c) and images(c) == {"web:2"}

            await eventually(rolled)
            return seen

    assert {"web:1", "web:2"} not in run(scenario())


def test_scaling_pausing_and_going_on():
    async def scenario():
        async with scheduled() as c:
            await c.api.create(DEPLOYMENTS, "default", deployment(replicas=2))
            await eventually(lambda: is_done(c))
            await change(c, paused=True)
            await set_image(c, "web:2")
            await change(c, replicas=5)
            await eventually(lambda: sizes(c) == [5] and len(pods(c)) == 5)
            paused = find_condition(found(c)["status"], "Progressing")
            assert images(c) == {"web:1"}
            await change(c, paused=False)
            await eventually(lambda: is_done(c) and images(c) == {"web:2"})
            await change(c, replicas=0)
            await eventually(lambda: not pods(c) and is_done(c))
            return paused

    assert run(scenario())["reason"] == "DeploymentPaused"


def test_deployment_keeps_replica_sets_up_to_history_limit():
    async def scenario():
        async with scheduled() as c:
            await c.api.create(DEPLOYMENTS, "default", deployment(replicas=1, revisionHistoryLimit=1))
            for number in range(2, 5):
                await eventually(lambda: is_done(c))
                await set_image(c, f"web:{number}")
            await eventually(lambda: is_done(c) and len(sets(c)) == 2)
            return [one["metadata"]["annotations"][REVISION] for one in sets(c)]

    assert run(scenario()) == ["3", "4"]


def test_deployment_reports_progress_deadline_exceeded():
    async def scenario():
        async with scheduled(kubelets=False) as c:  # pods never run
            await c.api.create(DEPLOYMENTS, "default", deployment(progressDeadlineSeconds=5))

            def late():
                found_now = find_condition(found(c)["status"], "Progressing") or {}
                return found_now.get("reason") == "ProgressDeadlineExceeded"

            await eventually(late)

    run(scenario())


def test_deployment_replaces_deleted_pods_and_adopts_matching_ones():
    async def scenario():
        async with scheduled() as c:
            stray = {"metadata": {"name": "stray", "labels": {"app": "s"}}, "spec": template()["spec"]}
            await c.api.create("pods", "default", stray)
            selector = {"matchLabels": {"app": "s"}}
            made = {
                "metadata": {"name": "s"},
                "spec": {"replicas": 2, "selector": selector, "template": template(app="s")},
            }
            await c.api.create(REPLICA_SETS, "default", made)
            await eventually(lambda: c.api.read(REPLICA_SETS, "default", "s")["status"].get("availableReplicas") == 2)
            assert len(pods(c)) == 2
            assert controller_of(c.pod("stray"))["name"] == "s"
            await c.api.delete("pods", "default", "stray", grace=0)
            await eventually(lambda: c.pod("stray") is None and len(pods(c)) == 2)
            (one, _) = pods(c)
            free = one["metadata"]["name"]
            await c.api.modify("pods", "default", free, lambda pod: pod["metadata"]["labels"].update(app="free"))
            await eventually(lambda: len(pods(c)) == 3)
            await eventually(lambda: controller_of(c.pod(free)) is None)

    run(scenario())


def test_deployment_counts_pods_available_after_min_ready_seconds():
    async def scenario():
        async with scheduled() as c:
            await c.api.create(DEPLOYMENTS, "default", deployment(replicas=1, minReadySeconds=200))  # two seconds here
            ready = []

            def done():
                status = found(c)["status"]
                ready.append((status.get("readyReplicas", 0), status.get("availableReplicas", 0)))
                return is_done(c)

            await eventually(done)
            return ready

    assert (1, 0) in run(scenario())


def test_deployment_retries_pods_refused_by_quota():
    async def scenario():
        async with scheduled() as c:
            quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
            await c.api.create("resourcequotas", "default", quota)
            await eventually(lambda: c.api.read("resourcequotas", "default", "q").get("status", {}).get("used"))
            await c.api.create(DEPLOYMENTS, "default", deployment(replicas=4))

            def told():
                status = found(c)["status"]
                return find_condition(status, "ReplicaFailure") and status.get("availableReplicas") == 2

            await eventually(told)
            failure = find_condition(found(c)["status"], "ReplicaFailure")
            await c.api.modify("resourcequotas", "default", "q", lambda one: one["spec"]["hard"].update(pods="9"))
            await eventually(lambda: is_done(c))
            await eventually(lambda: find_condition(found(c)["status"], "ReplicaFailure") is None)
            return failure

    failure = run(scenario())
    assert failure["reason"] == "FailedCreate" and "exceeded quota: q" in failure["message"]


def test_deployment_deletion_cascades_or_orphans():
    async def scenario():
        async with scheduled() as c:
            for name in ("background", "foreground", "orphan"):
                await c.api.create(DEPLOYMENTS, "default", deployment(name, replicas=2))
            await eventually(lambda: all(is_done(c, name) for name in ("background", "foreground", "orphan")))
            await c.api.delete(DEPLOYMENTS, "default", "background", propagation="Background")
            await c.api.delete(DEPLOYMENTS, "default", "foreground", propagation="Foreground")
            await c.api.delete(DEPLOYMENTS, "default", "orphan", propagation="Orphan")
            await eventually(lambda: not c.api.list(DEPLOYMENTS, "default"))
            await eventually(lambda: len(sets(c)) == 1 and len(pods(c)) == 2)
            (left,) = sets(c)
            assert controller_of(left) is None
            # a Deployment of the same template finds it again
            await c.api.create(DEPLOYMENTS, "default", deployment("orphan", replicas=2))
            await eventually(lambda: is_done(c, "orphan"))
            return left, sets(c), found(c, "orphan")

    left, (now,), one = run(scenario())
    assert now["metadata"]["uid"] == left["metadata"]["uid"]
    assert controller_of(now)["uid"] == one["metadata"]["uid"]


def test_deployment_avoids_hash_collision():
    async def scenario():
        async with scheduled() as c:
            await c.api.create(DEPLOYMENTS, "default", deployment(replicas=1))
            await eventually(lambda: is_done(c))
            (own,) = sets(c)
            await c.api.delete(DEPLOYMENTS, "default", "d", propagation="Foreground")
            await eventually(lambda: not sets(c))
            # somebody else's, by the name that our next one would have
            name = own["metadata"]["name"]
            selector = {"matchLabels": {"app": "other"}}
            spec = {"replicas": 0, "selector": selector, "template": template(app="other")}
            about = {"name": name, "annotations": {REVISION: "0"}}
            await c.api.create(REPLICA_SETS, "default", {"metadata": about, "spec": spec})
            await c.api.create(DEPLOYMENTS, "default", deployment(replicas=1))
            await eventually(lambda: is_done(c))
            return name, sets(c), found(c)["status"]

    name, both, status = run(scenario())
    assert status["collisionCount"] == 1
    assert len(both) == 2 and controller_of(next(one for one in both if one["metadata"]["name"] == name)) is None
