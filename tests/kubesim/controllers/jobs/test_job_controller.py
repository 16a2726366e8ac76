"""Jobs through the real API, with a scheduler that puts every pod on the first node."""

from __future__ import annotations

from tests.support.simulated import eventually, lasting, run
from tests.support.simulated import scheduled as job_cluster

JOBS = "jobs.batch"


def job(name="j", annotations=None, restart="Never", **spec):
    template = {
        "metadata": {"annotations": annotations or lasting(1)},
        "spec": {"restartPolicy": restart, "containers": [{"name": "main", "image": "busybox"}]},
    }
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def status(c, name="j"):
    return c.api.read(JOBS, "default", name)["status"]


def holds(c, kind, name="j"):
    return any(e["type"] == kind and e["status"] == "True" for e in status(c, name).get("conditions", ()))


def pods(c):
    return c.api.list("pods", "default")


def reasons(c):
    return [event["reason"] for event in c.api.list("events", "default")]


def test_a_job_runs_to_completion():
    async def scenario():
        async with job_cluster() as c:
            await c.api.create(JOBS, "default", job(completions=5, parallelism=2))
            most = 0

            def done():
                nonlocal most
                most = max(most, status(c).get("active", 0))
                return holds(c, "Complete")

            await eventually(done)
            await eventually(lambda: "Completed" in reasons(c))  # it is said after it is so
            return status(c), pods(c), most, reasons(c)

    final, made, most, events = run(scenario())
    assert most == 2
    assert final["succeeded"] == 5
    assert "active" not in final
    assert final["startTime"] <= final["completionTime"]
    assert [p["status"]["phase"] for p in made] == ["Succeeded"] * 5
    assert all(p["metadata"]["name"].startswith("j-") for p in made)
    assert not any(p["metadata"].get("finalizers") for p in made)
    assert {p["metadata"]["ownerReferences"][0]["kind"] for p in made} == {"Job"}
    assert events.count("SuccessfulCreate") == 5
    assert events.count("Completed") == 1


def test_job_fails_after_backoff_limit():
    async def scenario():
        async with job_cluster() as c:
            await c.api.create(JOBS, "default", job(backoffLimit=1, annotations=lasting(1, fail="3")))
            await eventually(lambda: holds(c, "Failed"))
            return status(c), pods(c)

    final, made = run(scenario())
    assert final["failed"] == 2  # the first, and one more
    assert final["conditions"][-1]["reason"] == "BackoffLimitExceeded"
    assert len(made) == 2


def test_job_deletion_deletes_its_pods():
    async def scenario():
        async with job_cluster() as c:
            await c.api.create(JOBS, "default", job(parallelism=3, annotations=lasting(1e6)))
            await eventually(lambda: status(c).get("ready") == 3)
            await c.api.delete(JOBS, "default", "j", propagation="Background")
            await eventually(lambda: not pods(c))
            await c.api.create(JOBS, "default", job("k", parallelism=2, annotations=lasting(1e6)))
            await eventually(lambda: status(c, "k").get("ready") == 2)
            await c.api.delete(JOBS, "default", "k", propagation="Foreground")
            # Not ``read``, which sees pending writes, because ``pods`` lists committed ones only.
            await eventually(lambda: not c.api.list(JOBS, "default"))
            return pods(c)

    assert run(scenario()) == []


def test_suspend_and_resume():
    async def scenario():
        async with job_cluster() as c:
            await c.api.create(
                JOBS, "default", job(parallelism=2, completions=2, suspend=True, annotations=lasting(50))
            )
            await eventually(lambda: holds(c, "Suspended"))
            none = pods(c)
            await c.api.modify(JOBS, "default", "j", lambda found: found["spec"].update(suspend=False))
            await eventually(lambda: status(c).get("ready") == 2)
            await c.api.modify(JOBS, "default", "j", lambda found: found["spec"].update(suspend=True))
            await eventually(lambda: not pods(c))
            paused = status(c)
            await c.api.modify(JOBS, "default", "j", lambda found: found["spec"].update(suspend=False))
            await eventually(lambda: holds(c, "Complete"))
            return none, paused, status(c)

    none, paused, final = run(scenario())
    assert none == []
    assert "failed" not in paused
    assert final["succeeded"] == 2


def test_an_indexed_job():
    async def scenario():
        async with job_cluster() as c:
            await c.api.create(JOBS, "default", job(completionMode="Indexed", completions=3, parallelism=3))
            await eventually(lambda: holds(c, "Complete"))
            return status(c), pods(c)

    final, made = run(scenario())
    assert final["completedIndexes"] == "0-2"
    assert sorted(p["spec"]["hostname"] for p in made) == ["j-0", "j-1", "j-2"]


def test_finished_job_is_deleted_after_ttl():
    async def scenario():
        async with job_cluster() as c:
            await c.api.create(JOBS, "default", job(ttlSecondsAfterFinished=10))
            await eventually(lambda: c.api.read(JOBS, "default", "j") is None)
            await eventually(lambda: not pods(c))

    run(scenario())


def test_a_pod_that_is_deleted_is_replaced_and_counted():
    async def scenario():
        async with job_cluster() as c:
            await c.api.create(JOBS, "default", job(annotations=lasting(100)))
            await eventually(lambda: status(c).get("ready") == 1)
            (victim,) = pods(c)
            await c.api.delete("pods", "default", victim["metadata"]["name"], grace=0)
            await eventually(lambda: holds(c, "Complete"))
            return status(c)

    final = run(scenario())
    assert (final["failed"], final["succeeded"]) == (1, 1)


def test_pods_that_match_are_adopted():
    async def scenario():
        async with job_cluster() as c:
            stray = {
                "metadata": {"name": "stray", "labels": {"team": "a"}, "annotations": lasting(20)},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]},
            }
            await c.api.create("pods", "default", stray)
            made = job(manualSelector=True, selector={"matchLabels": {"team": "a"}})
            made["spec"]["template"]["metadata"]["labels"] = {"team": "a"}
            await c.api.create(JOBS, "default", made)
            await eventually(lambda: holds(c, "Complete"))
            return pods(c)

    (only,) = run(scenario())
    assert only["metadata"]["name"] == "stray"
    assert only["metadata"]["ownerReferences"][0]["name"] == "j"
