"""Every kind that a shared machine serves, in every form in which it is served, asked for by another user.

Anna marks one object of each kind that users make, wherever it takes a text. Bela asks for all that there is.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pumice.agent.shim.volume_mounts import may_mount
from pumice.embedded.shared.access_rules import OWN
from pumice.kube.client.blocking_http import Connection
from tests.support.people import Account, SharedMachine, accounts, job_of, need_root, open_folder, pod_of

pytestmark = pytest.mark.timeout(600)

MARK = "marked-by-anna"
SUFFIX = f"{os.getpid() % 100_000}"
FORMS = {
    "objects": "application/json",
    "a table": "application/json;as=Table;g=meta.k8s.io;v=v1",
    "metadata": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "protobuf": "application/vnd.kubernetes.protobuf",
}


def marked_pod_spec() -> dict[str, Any]:
    env = [{"name": "MARK", "value": MARK}]
    return {**pod_of("x", f"echo {MARK}", env=env)["spec"], "schedulerName": "nobody", "hostname": MARK}


def workload(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"note": MARK}}, "spec": marked_pod_spec()}
    template["spec"]["restartPolicy"] = "Always"
    return {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}}


def bodies() -> dict[str, dict[str, Any]]:
    """By resource, an object in which a text of the user stands wherever one may."""
    batch = {"template": {"spec": marked_pod_spec()}, "suspend": True}
    volcano = job_of("x", f"echo {MARK}", annotations={"note": MARK})["spec"]
    controller = workload(replicas=0)
    controller["spec"]["selector"] = {"a": "b"}
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": MARK, "uid": "x"}
    return {
        "pods": {"spec": marked_pod_spec()},
        "configmaps": {"data": {"word": MARK}},
        "secrets": {"stringData": {"word": MARK}, "type": f"example.com/{MARK}"},
        "services": {"spec": {"ports": [{"port": 80}], "selector": {"mark": MARK}}},
        "persistentvolumeclaims": {
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        },
        "replicationcontrollers": controller,
        "deployments.apps": workload(replicas=0),
        "replicasets.apps": workload(replicas=0),
        "statefulsets.apps": workload(replicas=0, serviceName=MARK),
        "daemonsets.apps": workload(),
        "jobs.batch": {"spec": batch},
        "cronjobs.batch": {"spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": batch}}},
        "poddisruptionbudgets.policy": {"spec": {"minAvailable": 0, "selector": {"matchLabels": {"mark": MARK}}}},
        "networkpolicies.networking.k8s.io": {"spec": {"podSelector": {"matchLabels": {"mark": MARK}}}},
        "jobs.batch.volcano.sh": {"spec": {**volcano, "schedulerName": "nobody"}},
        "cronjobs.batch.volcano.sh": {
            "spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": volcano}}
        },
        "jobtemplates.flow.volcano.sh": {"spec": volcano},
        "jobflows.flow.volcano.sh": {"spec": {"flows": [{"name": MARK}]}},
        "podgroups.scheduling.volcano.sh": {"spec": {"minMember": 99, "queue": "default"}},
        "commands.bus.volcano.sh": {"action": "ResumeJob", "target": target, "message": MARK},
    }


class World:
    """The machine, and what a user is answered."""

    def __init__(self, machine: SharedMachine, anna: Account, bela: Account) -> None:
        self.machine, self.anna, self.bela = machine, anna, bela

    def ask(self, account: Account, *requests: tuple[str, str, str, Any]) -> list[tuple[int, str]]:
        """Code and text of each answer; requests are verb, path, form and body."""

        def connected() -> socket.socket:
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(60)
            made.connect(str(self.machine.socket))
            return made

        def act() -> list[tuple[int, str]]:
            found = []
            for verb, path, form, body in requests:
                connection = Connection(connected, "localhost")
                sent = None if body is None else json.dumps(body).encode()
                answer = connection.request(verb, path, sent, {"Accept": form, "Content-Type": "application/json"})
                found.append((answer.status, answer.read().decode("latin-1")))
                connection.close()
            return found

        return account.does(act)

    def served(self) -> dict[str, tuple[str, str, dict[str, Any]]]:
        """By resource: the path of its API, its apiVersion, and what the server says of it."""
        paths = ["/api/v1"]
        for group in json.loads(self._text("/apis"))["groups"]:
            paths += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
        found = {}
        for path in paths:
            listed = json.loads(self._text(path))
            group = listed["groupVersion"].rpartition("/")[0]
            for each in listed["resources"]:
                name = f"{each['name']}.{group}" if group else each["name"]
                found.setdefault(name, (path, listed["groupVersion"], each))
        return found

    def _text(self, path: str) -> str:
        ((code, text),) = self.ask(self.bela, ("GET", path, "application/json", None))
        assert code == 200, text
        return text


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    need_root()
    if not may_mount():
        pytest.skip("this process may not give a child mounts of its own")
    names = [f"{name}{SUFFIX}" for name in ("ann", "bel")]
    with open_folder() as folder, accounts(folder, *names, group=f"adm{SUFFIX}") as (anna, other):
        machine = SharedMachine(folder, "root", "--no-ui")
        try:
            yield World(machine, anna, other)
        finally:
            machine.end()


def test_nothing_that_a_user_writes_is_shown_to_another_in_any_form(world: World) -> None:
    served = world.served()
    assert set(bodies()) == OWN
    made = []
    for name, body in bodies().items():
        path, version, about = served[name]
        metadata = {"name": "x", "labels": {"mark": MARK}, "annotations": {"note": MARK}}
        document = {"apiVersion": version, "kind": about["kind"], "metadata": metadata, **body}
        made.append(("POST", f"{path}/namespaces/{world.anna.name}/{about['name']}", FORMS["objects"], document))
    for (_, path, _, _), (code, text) in zip(made, world.ask(world.anna, *made), strict=True):
        assert code == 201, (path, text)

    asked = []
    for path, _, about in served.values():
        if "list" not in about["verbs"]:
            continue
        places = [path, f"{path}/namespaces/{world.anna.name}"] if about["namespaced"] else [path]
        for place in places:
            collection = f"{place}/{about['name']}"
            asked += [("GET", collection, form, None) for form in FORMS.values()]
            asked.append(("GET", f"{collection}?watch=true&timeoutSeconds=1&resourceVersion=0", FORMS["objects"], None))
            parts = ("", "/status", "/log", "/scale")
            asked += [("GET", f"{collection}/x{part}", FORMS["objects"], None) for part in parts]
            asked.append(("GET", f"{collection}?labelSelector=mark%3D{MARK}", FORMS["a table"], None))
    assert len(asked) > 300
    for request, (_, text) in zip(asked, world.ask(world.bela, *asked), strict=True):
        assert MARK not in text, (request, text)

    # Otherwise nothing would be shown to anybody. Commands are carried out, and gone.
    own = [("GET", path, FORMS["objects"], None) for _, path, _, _ in made if not path.endswith("/commands")]
    for request, (_, text) in zip(own, world.ask(world.anna, *own), strict=True):
        assert MARK in text, request
