"""``pumice ui`` on a real API server, with the rights that it ships: viewers see what their own accounts may read."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks import kubernetes
from pumice.install.install_options import InstallOptions
from pumice.install.rbac import UI, policy_rules_of
from tests.install.working_day import use
from tests.support.installed import HOME, Component, Real, pumice, real_server, until

pytestmark = pytest.mark.kube
Document = dict[str, Any]


class Page:
    """``pumice ui`` at work."""

    def __init__(self, real: Real) -> None:
        self.real = real
        (self._port,) = kubernetes.free_ports(1)
        listen = ["--listen", f"127.0.0.1:{self._port}", "--self-signed", "--cluster-auth"]
        self.component = Component(real, UI, *listen)

    def get(self, path: str, token: str) -> tuple[int, Document]:
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        url = f"https://127.0.0.1:{self._port}{path}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
        try:
            with urllib.request.urlopen(request, context=trusting, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with real_server(tmp_path_factory.mktemp("page")) as real:
        assert pumice(real.admin, "install", "--no-webhooks")[0] == 0
        admin = real.kubectl()
        for namespace in ("team-a", "team-b"):
            admin("create", "namespace", namespace)
            group = {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": f"job-of-{namespace}", "namespace": namespace},
                "spec": {"queue": "default", "minMember": 1},
            }
            real.kubectl(namespace)("create", "-f", "-", given=group)
        team = real.kubectl("team-a")
        team("create", "serviceaccount", "viewer")
        team("create", "role", "see", "--verb=list", "--resource=pods,podgroups")
        team("create", "rolebinding", "viewer", "--role=see", "--serviceaccount=team-a:viewer")
        made = Page(real)
        with made.component.running():
            yield made


def token(page: Page, account: str, namespace: str) -> str:
    return page.real.kubectl(namespace)("create", "token", account).strip()


def test_administrator_sees_everything(page: Page) -> None:
    admin = page.real.endpoint.token
    status, about = page.get("/api/about", admin)
    assert (status, about["viewer"]["namespaces"], about["viewer"]["canListNodes"]) == (200, None, True)
    jobs = page.get("/api/jobs", admin)[1]["jobs"]
    assert {job["key"] for job in jobs} == {"team-a/job-of-team-a", "team-b/job-of-team-b"}
    status, why = page.get("/api/jobs/team-b/job-of-team-b/why", admin)
    assert (status, why.get("job")) == (200, "team-b/job-of-team-b"), why


def test_viewer_sees_only_readable_namespaces(page: Page) -> None:
    viewer = token(page, "viewer", "team-a")
    about = page.get("/api/about", viewer)[1]["viewer"]
    assert about == {
        "name": "system:serviceaccount:team-a:viewer",
        "authentication": "cluster",
        "canListQueues": False,
        "canListNodes": False,
        "namespaces": ["team-a"],
    }
    assert [job["key"] for job in page.get("/api/jobs", viewer)[1]["jobs"]] == ["team-a/job-of-team-a"]
    assert page.get("/api/jobs/team-b/job-of-team-b", viewer)[0] == 404
    assert page.get("/api/tree", viewer)[0] == page.get("/api/nodes", viewer)[0] == 403
    assert page.get("/api/jobs/team-a/job-of-team-a/why", viewer)[1]["cause"] == "status"


def test_without_a_valid_token_nothing_is_shown(page: Page) -> None:
    for path in ("/api/about", "/api/tree", "/api/jobs", "/api/decisions", "/api/stream"):
        assert page.get(path, "")[0] == page.get(path, "forged")[0] == 401


def test_rights_are_those_that_are_used(page: Page) -> None:
    page.get("/api/jobs/team-b/job-of-team-b/why", page.real.endpoint.token)
    page.get("/api/about", token(page, "viewer", "team-a"))
    shipped = {
        (verb, rule.group, resource)
        for rule in policy_rules_of(UI, InstallOptions())[0]
        for resource in rule.resources
        for verb in rule.verbs
    }

    def asked() -> set[tuple[str, str, str]]:
        own = f"system:serviceaccount:{HOME}:pumice-{UI}"
        return {use(event) for event in page.real.asked() if event["user"]["username"] == own}

    until(lambda: asked() >= shipped, what=f"asked for {shipped - asked()}")
    assert asked() - shipped == set()
