"""The queue controller on the embedded API, with admission on: hierarchies, commands, deletions, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesim.server import RunningCluster
from pumice.admission import Settings
from pumice.controllers.manager import ControllerManager
from pumice.controllers.queues import QueueController
from pumice.controllers.routing_events import RoutingEvents
from pumice.embedded.admission_hook import EmbeddedAdmission
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Session
from pumice.kube.resources import COMMANDS, JOBS, POD_GROUPS, PODS, QUEUES
from tests.support.live_cluster import eventually, live, scheduling, submit

Document = dict[str, Any]

# The worked example of hierarchy queues: one object, five queues.
ROOT = yaml.safe_load("""
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: root}
spec:
  weight: 1
  hierarchy:
  - name: default
    parameters: [{name: weight, value: 5}]
  - name: dev
    parameters: [{name: weight, value: 5}]
    hierarchy:
    - name: test1
      parameters: [{name: weight, value: 1}, {name: reclaimable, value: false}]
    - name: test2
      parameters: [{name: weight, value: 2}]
""")


class Bench:
    """A cluster with a queue controller that can be killed."""

    def __init__(self, running: RunningCluster, api: Api) -> None:
        self.running = running
        self.api = api
        self._together: ControllerManager | None = None
        self._work: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._together = ControllerManager(self.api, [QueueController, RoutingEvents])
        self._work = asyncio.create_task(self._together.run())

    async def kill(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    # ---- what people do ----------------------------------------------------------------------------------

    async def queue(self, name: str, **spec: Any) -> None:
        document = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        await self.api.create(QUEUES.raw, document)

    async def edit(self, name: str, **spec: Any) -> None:
        await self.api.patch(QUEUES.raw, name, {"spec": spec})

    async def command(self, action: str, queue: str) -> None:
        about = self.read(queue)["metadata"]
        target = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": queue, "uid": about["uid"]}
        command = {"metadata": {"generateName": "do-"}, "action": action, "target": target}
        await self.api.create(COMMANDS, {"apiVersion": COMMANDS.api_version, "kind": "Command", **command}, "default")

    async def group(self, name: str, queue: str) -> None:
        document = {"metadata": {"name": name}, "spec": {"minMember": 1, "queue": queue}}
        document |= {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup"}
        await self.api.create(POD_GROUPS.raw, document, "default")

    async def job(self, name: str, queue: str) -> None:
        template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
        spec = {"queue": queue, "tasks": [{"name": "main", "replicas": 1, "template": template}]}
        document = {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": {"name": name}, "spec": spec}
        await self.api.create(JOBS, document, "default")

    # ---- what they see -----------------------------------------------------------------------------------

    def read(self, name: str) -> Document:
        return self.running.api.read(QUEUES.name, "", name) or {}

    def names(self) -> set[str]:
        return {queue["metadata"]["name"] for queue in self.running.api.list(QUEUES.name)}

    def states(self) -> dict[str, str]:
        return {
            queue["metadata"]["name"]: (queue.get("status") or {}).get("state", "")
            for queue in self.running.api.list(QUEUES.name)
        }

    async def until_states(self, **wanted: str) -> None:
        await eventually(lambda: {**self.states(), **wanted} == self.states() and not self.commands())

    def commands(self) -> list[Document]:
        return list(self.running.api.list(COMMANDS.name))

    async def until_quiet(self) -> None:
        """Nothing is left to do, and after another look there is still nothing: no write happens."""
        assert self._together is not None
        while True:
            await asyncio.sleep(0.1)
            before = [(q["metadata"]["name"], q["metadata"]["resourceVersion"]) for q in self.all_queues()]
            await self.kill()
            self.start()
            await asyncio.sleep(0.15)
            if before == [(q["metadata"]["name"], q["metadata"]["resourceVersion"]) for q in self.all_queues()]:
                return

    def all_queues(self) -> list[Document]:
        return list(self.running.api.list(QUEUES.name))


@asynccontextmanager
async def bench(running: RunningCluster) -> AsyncIterator[Bench]:
    if running.api.writes.admission is None:
        running.api.writes.admission = EmbeddedAdmission(running.api.store, Settings())
    async with Session(Access(running.server)) as session:
        made = Bench(running, Api(session))
        made.start()
        try:
            yield made
        finally:
            await made.kill()


def on_bench(place: Path, story: Any, *, nodes: int = 1) -> None:
    async def check(running: RunningCluster) -> None:
        async with bench(running) as made:
            await story(made)

    live(place, check, count=nodes)


def test_the_root_of_the_example_makes_five_queues(tmp_path: Path) -> None:
    async def story(on: Bench) -> None:
        await on.edit("root", **ROOT["spec"])
        await on.until_states(root="Open", default="Open", dev="Open", test1="Open", test2="Open")
        await eventually(lambda: on.read("default")["spec"]["weight"] == 5)
        assert on.names() == {"root", "default", "dev", "test1", "test2"}
        dev = on.read("dev")
        assert dev["spec"]["weight"] == 5
        assert dev["spec"]["parent"] == "root"
        assert dev["spec"]["hierarchy"] == ROOT["spec"]["hierarchy"][1]["hierarchy"]
        test1 = on.read("test1")["spec"]
        assert (test1["parent"], test1["weight"], test1["reclaimable"]) == ("dev", 1, False)
        assert (on.read("test2")["spec"]["weight"], on.read("test2")["spec"]["reclaimable"]) == (2, True)
        await on.until_quiet()

    on_bench(tmp_path, story)


def test_a_parent_counts_the_podgroups_below_it(tmp_path: Path) -> None:
    async def story(on: Bench) -> None:
        await on.edit("root", **ROOT["spec"])
        await on.until_states(root="Open", default="Open", dev="Open", test1="Open", test2="Open")
        async with scheduling(on.running.server):
            for queue, jobs in (("default", 3), ("test1", 1), ("test2", 2)):
                for number in range(jobs):
                    await submit(on.running, f"{queue}-{number}", 1, queue=queue)

            def running() -> dict[str, int]:
                return {queue["metadata"]["name"]: queue["status"].get("running", 0) for queue in on.all_queues()}

            # 12 cpu for 6 jobs of 1: all run. dev: 1 + 2; root: 3 + 3.
            await eventually(lambda: running() == {"root": 6, "default": 3, "dev": 3, "test1": 1, "test2": 2})
            # The scheduler and the controller write the same status and leave each other's part alone.
            await on.command("CloseQueue", "dev")
            await on.until_states(root="Open", default="Open", dev="Closing", test1="Closing", test2="Closing")
            assert running()["dev"] == 3

    on_bench(tmp_path, story, nodes=3)


def test_a_hierarchy_is_edited_and_what_it_does_not_name_stays(tmp_path: Path) -> None:
    async def story(on: Bench) -> None:
        await on.edit("root", **ROOT["spec"])
        await eventually(lambda: "test2" in on.names())
        await on.edit("test1", priority=7, capability={"cpu": "3"})
        await on.queue("mine", parent="dev")
        # test2 is taken out, test1 weighs more, test3 is new.
        entry = ROOT["spec"]["hierarchy"][1] | {
            "hierarchy": [{"name": "test1", "parameters": [{"name": "weight", "value": "9"}]}, {"name": "test3"}]
        }
        await on.edit("root", hierarchy=[ROOT["spec"]["hierarchy"][0], entry])
        await eventually(lambda: on.names() == {"root", "default", "dev", "test1", "test3", "mine"})
        test1 = on.read("test1")["spec"]
        assert (test1["weight"], test1["priority"], test1["capability"]) == (9, 7, {"cpu": "3"})
        # All of dev is taken out: what was made by hand stays, and so does dev above it, closed.
        await on.edit("root", hierarchy=[ROOT["spec"]["hierarchy"][0]])
        await eventually(lambda: on.names() == {"root", "default", "dev", "mine"})
        await on.until_states(dev="Closed", mine="Closed")
        await on.api.delete(QUEUES, "mine")
        await eventually(lambda: on.names() == {"root", "default"})
        await on.until_quiet()

    on_bench(tmp_path, story)


def test_an_entry_taken_out_waits_for_its_jobs_and_may_come_back(tmp_path: Path) -> None:
    async def story(on: Bench) -> None:
        await on.edit("root", **ROOT["spec"])
        await eventually(lambda: "test2" in on.names())
        await on.group("work", "test1")
        await on.edit("root", hierarchy=[])
        await on.until_states(dev="Closing", test1="Closing")
        await eventually(lambda: "test2" not in on.names())
        await on.edit("root", **ROOT["spec"])
        await on.until_states(dev="Open", test1="Open", test2="Open")
        await on.edit("root", hierarchy=[])
        await on.until_states(dev="Closing", test1="Closing")
        await on.api.delete(POD_GROUPS, "work", "default")
        await eventually(lambda: on.names() == {"root", "default"})

    on_bench(tmp_path, story)


def test_a_parent_is_closed_with_its_children_and_each_remembers_what_it_was(tmp_path: Path) -> None:
    async def story(on: Bench) -> None:
        await on.queue("eng")
        for name in ("a", "b", "c"):
            await on.queue(name, parent="eng")
        await on.group("work", "a")
        await on.command("CloseQueue", "b")
        await on.command("PauseQueue", "c")
        await on.until_states(eng="Open", a="Open", b="Closed", c="Paused")
        await on.command("CloseQueue", "eng")
        await on.until_states(eng="Closing", a="Closing", b="Closed", c="Closed")
        await on.kill()  # what must be remembered is in the cluster
        on.start()
        await on.command("ResumeQueue", "c")
        await on.api.delete(POD_GROUPS, "work", "default")
        await on.until_states(eng="Closed", a="Closed", b="Closed", c="Closed")
        await on.command("OpenQueue", "eng")
        await on.until_states(eng="Open", a="Open", b="Closed", c="Open")
        assert {c["message"] for q in on.all_queues() for c in q["status"]["conditions"]} == {
            "its own state is Open",
            "its own state is Closed",
        }
        await on.until_quiet()

    on_bench(tmp_path, story)


def test_a_suspended_job_does_not_keep_its_queue_from_closing(tmp_path: Path) -> None:
    async def story(on: Bench) -> None:
        await on.queue("a")
        await on.job("waits", "a")
        await on.command("CloseQueue", "a")
        await on.until_states(a="Closing")
        # As the controller of jobs says it of a job that was suspended; it has taken its podgroup away by then.
        await on.api.patch_status(JOBS, "waits", {"state": {"phase": "Aborted"}}, "default")
        await on.until_states(a="Closed")
        await on.until_quiet()

    on_bench(tmp_path, story)


def test_deleting_a_queue_takes_everything_below_with_it_also_across_a_crash(tmp_path: Path) -> None:
    async def story(on: Bench) -> None:
        await on.edit("root", **ROOT["spec"])
        await eventually(lambda: "test2" in on.names())
        await on.queue("deep", parent="test2")
        await eventually(lambda: all(q["metadata"].get("finalizers") for q in on.all_queues()))
        for name in ("test1", "deep"):
            await on.group(f"pg-{name}", name)
            await on.job(f"job-{name}", name)
        about = {"name": "member", "annotations": {"scheduling.k8s.io/group-name": "pg-deep"}}
        pod = {"schedulerName": "pumice", "containers": [{"name": "c", "image": "x"}]}
        await on.api.create(PODS.raw, {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": pod}, "default")
        await on.api.delete(QUEUES, "dev")
        while "deletionTimestamp" not in on.read("test2").get("metadata", {}):
            await asyncio.sleep(0)  # it may be gone an instant later
        await on.kill()
        assert "dev" in on.names()
        on.start()
        await eventually(lambda: on.names() == {"root", "default"})
        assert not on.running.api.list(JOBS.name) and not on.running.api.list(POD_GROUPS.name)
        assert not on.running.api.list("pods")
        # It was deleted for good: the hierarchy of root names it no more.
        assert [entry["name"] for entry in on.read("root")["spec"]["hierarchy"]] == ["default"]
        await on.until_quiet()

    on_bench(tmp_path, story)


def test_delete_is_forbidden_for_protected_root_and_default_queues(tmp_path: Path) -> None:
    async def story(on: Bench) -> None:
        await on.queue("eng")
        await on.queue("a", parent="eng")
        await on.api.patch(QUEUES.raw, "a", {"metadata": {"annotations": {"pumice.dev/protected": "true"}}})
        for name in ("eng", "a", "root", "default"):
            with pytest.raises(ApiError) as caught:
                await on.api.delete(QUEUES, name)
            assert caught.value.code == 403
        assert on.names() == {"root", "default", "eng", "a"}

    on_bench(tmp_path, story)


def test_user_limits_are_kept_while_there_are_children(tmp_path: Path) -> None:
    async def story(on: Bench) -> None:
        await on.queue("eng", minUserLimitPercent=25, userLimitFactor=2)
        await on.queue("a", parent="eng")
        await eventually(lambda: "minUserLimitPercent" not in on.read("eng")["spec"])
        assert on.read("eng")["metadata"]["annotations"]["pumice.dev/user-limits"]
        await on.api.delete(QUEUES, "a")
        await eventually(lambda: on.read("eng")["spec"].get("minUserLimitPercent") == 25)
        assert on.read("eng")["spec"]["userLimitFactor"] == 2
        assert "pumice.dev/user-limits" not in on.read("eng")["metadata"].get("annotations", {})

    on_bench(tmp_path, story)


def test_routed_event_is_emitted_once_across_controller_restart(tmp_path: Path) -> None:
    async def story(on: Bench) -> None:
        await on.job("sums", "root")
        await on.group("direct", "default")

        def routed() -> list[Document]:
            return [event for event in on.running.api.list("events") if event["reason"] == "Routed"]

        await eventually(lambda: bool(routed()))
        await on.kill()
        on.start()
        await asyncio.sleep(0.2)
        (event,) = routed()
        assert event["involvedObject"]["name"] == "sums"
        assert event["message"].startswith("Routed to queue 'default'")

    on_bench(tmp_path, story)


def test_two_weights_for_one_inner_node(tmp_path: Path) -> None:
    async def story(on: Bench) -> None:
        for name, weights in (("p", "1/2/8"), ("q", "1/3/8")):
            about = {"volcano.sh/hierarchy": f"root/eng/{name}", "volcano.sh/hierarchy-weights": weights}
            document = {"metadata": {"name": name, "annotations": about}, "spec": {}}
            await on.api.create(QUEUES.raw, {"apiVersion": QUEUES.api_version, "kind": "Queue", **document})

        def noted() -> list[str]:
            found = (queue.get("status", {}).get("conditions", []) for queue in on.all_queues())
            return [each["message"] for some in found for each in some if each["type"] != "OwnState"]

        await eventually(lambda: bool(noted()))
        assert noted() == ["weight 2 for 'root/eng' has no effect: the weight in force is 3 (set later by queue 'q')"]
        # p is older, but its weights are written again: now they count, also for a controller that starts anew.
        again = {"metadata": {"annotations": {"volcano.sh/hierarchy-weights": "1/5/8"}}}
        await on.api.patch(QUEUES.raw, "p", again)
        await eventually(lambda: "by queue 'p'" in "".join(noted()))
        assert noted() == ["weight 3 for 'root/eng' has no effect: the weight in force is 5 (set later by queue 'p')"]
        await on.until_quiet()
        assert noted() == ["weight 3 for 'root/eng' has no effect: the weight in force is 5 (set later by queue 'p')"]

    on_bench(tmp_path, story)


def test_a_command_that_fails_leaves_an_event(tmp_path: Path) -> None:
    async def story(on: Bench) -> None:
        await on.queue("team")
        await on.until_states(team="Open")
        about = {"apiVersion": QUEUES.api_version, "kind": "Queue"}
        uid = on.read("team")["metadata"]["uid"]
        for name, action, target in (
            ("nobody", "CloseQueue", {"name": "nowhere", "uid": "x"}),
            ("stranger", "CloseQueue", {"name": "team", "uid": "of-another"}),
            ("wrong", "AbortJob", {"name": "team", "uid": uid}),
            ("right", "PauseQueue", {"name": "team", "uid": uid}),
        ):
            command = {"metadata": {"name": name}, "action": action, "target": {**about, **target}}
            command |= {"apiVersion": COMMANDS.api_version, "kind": "Command"}
            await on.api.create(COMMANDS, command, "default")
        await on.until_states(team="Paused")
        events = [each for each in on.running.api.list("events") if each["reason"] == "CommandFailed"]
        assert all((each["type"], each["involvedObject"]["kind"]) == ("Warning", "Command") for each in events)
        assert {each["involvedObject"]["name"]: each["message"] for each in events} == {
            "nobody": "Command CloseQueue failed: queue 'nowhere' not found",
            "stranger": (
                f"Command CloseQueue failed: target.uid: Invalid value: 'of-another': "
                f"queue 'team' has the uid '{uid}', so it was recreated since"
            ),
            "wrong": (
                "Command AbortJob failed: action: Unsupported value for a queue: 'AbortJob': supported values: "
                "OpenQueue, CloseQueue, PauseQueue, ResumeQueue"
            ),
        }

    on_bench(tmp_path, story)
