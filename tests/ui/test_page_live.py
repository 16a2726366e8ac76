"""What the page says is what the API says: documents and stream on a live cluster, with a scheduler at work."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path

from kubebase.resource_vector import Registry
from kubesim.server import RunningCluster
from tests.support.live_cluster import GROUPS, QUEUES, eventually, live, scheduling, submit
from tests.support.pages import Document, OpenPage, open_page

HOSTILE = "<img src=x onerror=alert(1)></script>&\"'"
LINE_SEPARATOR = "\u2028"


async def make_queues(running: RunningCluster) -> None:
    for name, parent, weight in (("eng", "root", 3), ("research", "eng", 2), ("build", "eng", 1), ("sales", "root", 1)):
        await running.api.create(
            QUEUES, "", {"metadata": {"name": name}, "spec": {"parent": parent, "weight": weight, "reclaimable": True}}
        )


def recount(running: RunningCluster) -> dict[str, Document]:
    """Jobs, pods and requests of each leaf queue, counted from the objects themselves."""
    groups = {each["metadata"]["name"]: each for each in running.api.list(GROUPS)}
    found: dict[str, Document] = {}
    for each in groups.values():
        row = found.setdefault(each["spec"]["queue"], {"running": 0, "waiting": 0, "jobs": {}, "asked": 0})
        phase = str((each.get("status") or {}).get("phase") or "Pending").lower()
        row["jobs"][phase] = row["jobs"].get(phase, 0) + 1
    for pod in running.api.list("pods"):
        about, phase = pod["metadata"], pod["status"].get("phase")
        if phase in ("Succeeded", "Failed") or "deletionTimestamp" in about:
            continue
        row = found[groups[about["annotations"]["scheduling.k8s.io/group-name"]]["spec"]["queue"]]
        row["running" if pod["spec"].get("nodeName") else "waiting"] += 1
        row["asked"] += 0 if pod["spec"].get("nodeName") else 1000
    return found


def compare_with_api(running: RunningCluster, tree: Document) -> None:
    """Every number of the tree is that of the objects, or follows from them."""
    rows = {row["name"]: row for row in tree["queues"]}
    registry, counted = Registry(), recount(running)
    written = {each["metadata"]["name"]: each for each in running.api.list(QUEUES)}
    assert rows.keys() == written.keys()
    for name, row in rows.items():
        spec, status = written[name]["spec"], written[name].get("status") or {}
        assert row["state"] == status.get("state", "Open")
        if name != "root":
            assert row["weight"] == spec.get("weight", 1)
        for shown, kept in (("used", "allocated"), ("entitled", "entitled")):
            amounts = {key: registry.amount(key, value) for key, value in (status.get(kept) or {}).items()}
            nonzero = {key: amount for key, amount in amounts.items() if amount and key != "pods"}
            if row[shown] is not None:
                assert row[shown] == nonzero, (name, shown)
        used, own = row["used"].get("cpu", 0), row["own"].get("cpu", 0)
        assert row["borrowed"].get("cpu", 0) == max(0, used - own)
        if row["entitled"] is not None:
            assert row["owed"].get("cpu", 0) == max(0, row["entitled"].get("cpu", 0) - used)
        if row["leaf"]:
            count = counted.get(name, {"running": 0, "waiting": 0, "jobs": {}, "asked": 0})
            assert row["tasks"] == {"running": count["running"], "waiting": count["waiting"]}, name
            assert {phase: number for phase, number in row["jobs"].items() if number} == count["jobs"], name
            assert row["waiting"].get("cpu", 0) == count["asked"]
    for row in rows.values():
        children = [each for each in rows.values() if each["parent"] == row["path"]]
        for part in ("running", "waiting") if children else ():
            assert row["tasks"][part] == sum(each["tasks"][part] for each in children)
    capacity = sum(registry.amount("cpu", each["status"]["allocatable"]["cpu"]) for each in running.api.list("nodes"))
    assert tree["cluster"]["capacity"]["cpu"] == capacity
    assert rows["root"]["own"]["cpu"] == capacity


async def compare_queue_page(running: RunningCluster, page: OpenPage, name: str) -> None:
    found = await page.get(f"/api/queues/{name}")
    groups = {each["metadata"]["name"] for each in running.api.list(GROUPS) if each["spec"]["queue"] == name}
    assert {job["group"] for job in found["jobs"]} == groups
    assert found["jobsTotal"] == len(groups)
    for part in ("running", "waiting"):
        of_users = sum(user["tasks"][part] for user in found["users"])
        of_namespaces = sum(each["tasks"][part] for each in found["namespaces"])
        assert of_users == of_namespaces == found["queue"]["tasks"][part]
    for resource, flow in found["flows"].items():
        assert sum(each["amount"] for each in flow["lendsTo"]) == found["queue"]["lent"].get(resource, 0)
        assert sum(each["amount"] for each in flow["borrowsFrom"]) == found["queue"]["borrowed"].get(resource, 0)


async def settled_tree(running: RunningCluster, page: OpenPage) -> None:
    """Compare as soon as the page stands at the revision of the store: a busy cluster passes it at any moment."""
    for _ in range(200):
        before = running.api.store.revision
        await asyncio.sleep(0.3)
        tree = await page.get("/api/tree")
        if running.api.store.revision == before:
            compare_with_api(running, tree)
            for name in ("research", "sales"):
                await compare_queue_page(running, page, name)
            if running.api.store.revision == before:
                return
    raise AssertionError("the cluster never rested")


def test_every_number_is_that_of_the_objects(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        rng = random.Random(7)
        await make_queues(running)
        async with scheduling(running.server), open_page(running.server) as page:
            for number in range(2):
                for _ in range(3):
                    name, queue = f"job{number}-{rng.randrange(10**6)}", rng.choice(["research", "build", "sales"])
                    annotations = {"volcano.sh/user": rng.choice(["user-1", "user-2"]), "pumice.dev/run-seconds": "1"}
                    await submit(running, name, rng.randint(1, 5), queue=queue, least=1, **annotations)
                await settled_tree(running, page)

    live(tmp_path, check)


async def first_event(events: AsyncIterator[tuple[str, Document]], name: str) -> Document:
    while True:
        found, event = await anext(events)
        if found == name:
            return event


def test_change_arrives_as_a_difference(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        await make_queues(running)
        async with open_page(running.server) as page:
            events = page.events()
            name, hello = await anext(events)
            assert name == "hello"
            tree = await page.get("/api/tree")
            assert hello["versions"]["tree"] == tree["version"]
            await running.api.modify(QUEUES, "", "sales", lambda queue: queue["spec"].update(weight=9))
            event = await first_event(events, "tree")
            assert event["base"] == tree["version"]
            assert [row["weight"] for row in event["changed"] if row["name"] == "sales"] == [9]
            await submit(running, "job", 2, queue="sales")
            while "default/job" not in (await first_event(events, "changed"))["keys"]:
                pass
            await events.aclose()  # type: ignore[attr-defined]  # an async generator

    live(tmp_path, check)


def test_stream_continues_after_a_reconnect(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with open_page(running.server) as page:
            first = page.events()
            before = (await anext(first))[1]
            await first.aclose()  # type: ignore[attr-defined]  # an async generator
            await make_queues(running)
            second = page.events("?topics=tree")
            name, hello = await anext(second)
            assert name == "hello" and hello["epoch"] == before["epoch"]
            assert {row["name"] for row in (await first_event(second, "tree"))["changed"]} >= {"eng", "sales"}
            await second.aclose()  # type: ignore[attr-defined]  # an async generator
            await eventually(lambda: page.process.watcher.hub.viewers == 0)

    live(tmp_path, check)


def test_names_and_messages_stay_data(tmp_path: Path) -> None:
    """Whatever users write comes back as JSON, byte for byte, and never as markup."""

    async def check(running: RunningCluster) -> None:
        await submit(running, "job", 1, **{"volcano.sh/user": HOSTILE, "volcano.sh/task-spec": HOSTILE})
        condition = {"type": "Unschedulable", "status": "True", "reason": "X", "message": HOSTILE + LINE_SEPARATOR}
        written = {"phase": "Inqueue", "conditions": [condition]}
        named = {"annotations": {"volcano.sh/user": HOSTILE}}
        await running.api.modify(GROUPS, "default", "job", lambda found: found["metadata"].update(named))
        await running.api.modify(
            GROUPS, "default", "job", lambda found: found.update(status=written), subresource="status"
        )
        async with open_page(running.server) as page:
            status, headers, body = await page.answer("/api/jobs/default/job")
            assert status == 200
            found = json.loads(body)
            assert found["job"]["user"] == HOSTILE
            assert found["job"]["reason"]["message"] == HOSTILE + LINE_SEPARATOR
            assert found["tasks"][0]["role"] == HOSTILE
            assert headers["Content-Type"] == "application/json; charset=utf-8"
            assert headers["X-Content-Type-Options"] == "nosniff"
            status, headers, body = await page.answer("/api/queues/%3Cscript%3Ealert(1)%3C%2Fscript%3E")
            assert status == 404
            assert headers["Content-Type"] == "application/json; charset=utf-8"
            assert json.loads(body)["error"]["message"] == 'Queue "<script>alert(1)</script>" not found'

    live(tmp_path, check)
