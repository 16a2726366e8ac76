"""The rules of admission behind webhooks of a real API server: what kubectl is told, and what is stored."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks import kubernetes
from tests.install.working_day import Day
from tests.support.installed import HOME, Real, pumice, real_server, until, webhooks

pytestmark = pytest.mark.kube
USER = r"jsonpath={.metadata.annotations.volcano\.sh/user}"
JOBS = "jobs.batch.volcano.sh"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with real_server(tmp_path_factory.mktemp("webhooks")) as real:
        yield real


@pytest.fixture(scope="module")
def port(real: Real) -> int:
    (port,) = kubernetes.free_ports(1)
    assert pumice(real.admin, "install", "--webhook-url", f"https://127.0.0.1:{port}")[0] == 0
    return port


@pytest.fixture(scope="module")
def day(real: Real, port: int) -> Iterator[Day]:
    """The cluster, judged by us. Nobody else works there."""
    with webhooks(real, port).running():
        yield Day(real)


def test_refusal_reaches_the_client(day):
    status, said = day.kubectl.tried("create", "-f", "-", given=day.queue("lost", parent="nowhere"))
    assert status == 1
    assert "Error from server (Forbidden)" in said
    assert 'admission webhook "queues.admission.pumice.dev" denied the request: ' in said
    assert "spec.parent: Not found: 'nowhere': create that queue first, or use 'root'" in said


def test_a_protected_queue_stays(day):
    day.make({**day.queue("keep"), "metadata": {"name": "keep", "annotations": {"pumice.dev/protected": "true"}}})
    status, said = day.kubectl.tried("delete", "queue", "keep")
    assert status == 1 and "'keep' is protected" in said


def test_two_queues_that_fit_only_one_by_one(day):
    # The informer has not shown the first when the second comes: 60 and 60 of 100 deserved is one too many.
    day.make(day.queue("parent", deserved={"cpu": "100"}))
    day.make(day.queue("first", parent="parent", deserved={"cpu": "60"}))
    status, said = day.kubectl.tried(
        "create", "-f", "-", given=day.queue("second", parent="parent", deserved={"cpu": "60"})
    )
    assert status == 1 and "deserved" in said


def test_jobs_spread_over_the_leaves_below(day):
    day.node("node", cpu=64)
    day.make(day.queue("team"))
    for leaf in ("team-a", "team-b"):
        day.make(day.queue(leaf, parent="team"))
    for number in range(6):
        day.make(day.job(f"burst-{number}", 1, queue="team", cpu="1"))
    queues = [day.kubectl("get", JOBS, f"burst-{number}", "-o", "jsonpath={.spec.queue}") for number in range(6)]
    assert Counter(queues) == {"team-a": 3, "team-b": 3}
    routed = day.kubectl("get", JOBS, "burst-0", "-o", r"jsonpath={.metadata.annotations.pumice\.dev/routed}")
    assert "the least utilised of 2 open leaf queues below 'team'" in routed


def test_user_of_an_object(day):
    day.kubectl("create", "clusterrole", "submit", "--verb=create", f"--resource={JOBS},pods")
    day.kubectl("create", "clusterrolebinding", "submit", "--clusterrole=submit", "--user=carla")

    def submit(name: str, user: str = "") -> str:
        job = day.job(name, 1, annotations={"volcano.sh/user": user} if user else {})
        day.kubectl("create", "--as=carla", "-f", "-", given=job)
        return day.kubectl("get", JOBS, name, "-o", USER)

    assert submit("hers") == "carla"
    assert submit("forged", "dora") == "carla"
    day.kubectl("create", "clusterrole", "be-dora", "--verb=impersonate", "--resource=users", "--resource-name=dora")
    day.kubectl("create", "clusterrolebinding", "be-dora", "--clusterrole=be-dora", "--user=carla")
    until(lambda: day.kubectl.tried("auth", "can-i", "impersonate", "users/dora", "--as=carla")[0] == 0)
    assert submit("allowed", "dora") == "dora"
    day.make(day.pod("plain"))
    assert day.kubectl("get", "pod", "plain", "-o", USER) == "admin"


REPLICA_SETS = "system:serviceaccount:kube-system:replicaset-controller"
OURS = f"system:serviceaccount:{HOME}:pumice-controllers"


def let_submit(day: Day, who: str) -> None:
    """Let a user make and change pods, and nothing else."""
    name = who.rpartition(":")[2]
    day.kubectl("create", "clusterrole", f"pods-{name}", "--verb=create,get,patch,update", "--resource=pods")
    day.kubectl("create", "clusterrolebinding", f"pods-{name}", f"--clusterrole=pods-{name}", f"--user={who}")
    until(lambda: day.kubectl.tried("auth", "can-i", "create", "pods", f"--as={who}")[0] == 0)


def say(day: Day, name: str, user: str, who: str) -> tuple[int, str]:
    """Make a pod and say whose it is, as somebody."""
    pod = day.pod(name)
    pod["metadata"].setdefault("annotations", {})["volcano.sh/user"] = user
    return day.kubectl.tried("create", f"--as={who}", "-f", "-", given=pod)


def test_user_in_a_template_is_removed(day):
    let_submit(day, REPLICA_SETS)
    status, said = say(day, "from-a-template", "victim", REPLICA_SETS)
    assert status == 0, said
    assert day.kubectl("get", "pod", "from-a-template", "-o", USER) == ""


def test_pods_of_other_schedulers_are_ignored(day):
    pod = day.pod("foreign")
    pod["spec"]["schedulerName"] = "default-scheduler"
    day.make(pod)
    assert day.kubectl("get", "pod", "foreign", "-o", USER) == ""
    system = Day(day.real, "kube-system")
    system.make(day.pod("system"))
    assert system.kubectl("get", "pod", "system", "-o", USER) == ""


def test_a_dry_run_leaves_no_trace(day):
    day.make(day.queue("bounded", deserved={"memory": "1Gi"}))
    most = {"parent": "bounded", "deserved": {"memory": "1Gi"}}
    said = day.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", given=day.queue("dry", **most))
    assert json.loads(said)["spec"]["weight"] == 1, "filled in"
    day.make(day.queue("wet", **most))


def test_malformed_objects_are_refused_by_the_server(day):
    status, said = day.kubectl.tried(
        "create", "--validate=false", "-f", "-", given={**day.job("odd", 1), "spec": "odd"}
    )
    assert status == 1 and "spec" in said and "webhook" not in said


CONFIGURATIONS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")


def trusted(day: Day) -> set[str]:
    """The authorities that the API server knows, one for each webhook."""
    found = [day.kubectl.object(kind, "pumice")["webhooks"] for kind in CONFIGURATIONS]
    return {one["clientConfig"].get("caBundle", "") for webhooks in found for one in webhooks}


def judged(day: Day, name: str) -> bool:
    """Whether a queue can be made, by which the API server must trust us."""
    return day.kubectl.tried("create", "-f", "-", given=day.queue(name))[0] == 0


def test_overwritten_ca_is_restored(day):
    (before,) = trusted(day)
    for kind in CONFIGURATIONS:
        found = day.kubectl.object(kind, "pumice")
        for webhook in found["webhooks"]:
            del webhook["clientConfig"]["caBundle"]
        del found["metadata"]["resourceVersion"]
        day.kubectl("replace", "-f", "-", given=found)
    until(lambda: trusted(day) == {before}, 15, what="the authorities stand there again")
    until(lambda: judged(day, "after-overwriting"), 15)


def test_to_install_again_takes_nothing_away(day, real, port):
    before = trusted(day)
    _lead_to(real, port)
    assert trusted(day) == before
    assert judged(day, "after-installing")


def test_a_certificate_that_is_lost_is_made_anew(day, real):
    (before,) = trusted(day)
    home = real.kubectl(HOME)
    home("delete", "secret", "pumice-webhooks")
    until(lambda: trusted(day) not in ({before}, {""}) and len(trusted(day)) == 1, 15, what="another is trusted")
    until(lambda: judged(day, "after-the-loss"), 15)
    (after,) = trusted(day)
    assert home("get", "secret", "pumice-webhooks", "-o", r"jsonpath={.data.ca\.crt}") == after


def test_a_certificate_that_does_not_fit_is_replaced_and_both_are_trusted(day, real):
    (before,) = trusted(day)
    home = real.kubectl(HOME)
    home("patch", "secret", "pumice-webhooks", "-p", '{"data":{"tls.key":""}}')
    until(lambda: before not in trusted(day), 15, what="a new authority stands beside the old one")
    (after,) = trusted(day)
    old, both = base64.b64decode(before).strip(), base64.b64decode(after)
    assert old in both and both.count(b"BEGIN CERTIFICATE") == old.count(b"BEGIN CERTIFICATE") + 1
    assert judged(day, "meanwhile"), "what is shown is trusted all the time"


def test_admission_while_no_webhook_answers(day, real, port):
    """Ours waits, nobody else's does."""
    day.make(day.group("status-only"))
    day.make(day.group("leaving"))
    day.kubectl("patch", "podgroup", "leaving", "--type=merge", "-p", '{"metadata":{"finalizers":["test/keep"]}}')
    kubectl = real.kubectl()
    (taken,) = kubernetes.free_ports(1)
    _lead_to(real, taken)
    try:
        status, said = kubectl.tried("create", "-f", "-", given=day.queue("waits"))
        assert status == 1 and 'failed calling webhook "queues.admission.pumice.dev"' in said
        status, said = kubectl.tried("create", "-f", "-", given=day.job("waits", 1))
        assert status == 1 and "failed calling webhook" in said
        day.make(day.pod("goes-on"))
        assert kubectl("get", "pod", "goes-on", "-o", USER) == "", "all that is lost is whose it is"
        nobody_is_somebody_else(day)
        kubectl("patch", "podgroup", "status-only", "--type=merge", "-p", '{"status":{"phase":"Inqueue"}}')
        kubectl("delete", "podgroup", "leaving", "--wait=false")
        kubectl("patch", "podgroup", "leaving", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        assert kubectl.tried("get", "podgroup", "leaving")[0] == 1
    finally:
        _lead_to(real, port)
    until(lambda: kubectl.tried("create", "-f", "-", given=day.queue("waits"))[0] == 0)


def nobody_is_somebody_else(day: Day) -> None:
    """Although no webhook looks at pods."""
    kubectl = day.kubectl
    let_submit(day, "mallory")
    status, said = say(day, "forged-meanwhile", "victim", "mallory")
    assert status == 1 and "pumice-users-of-pods" in said
    assert 'volcano.sh/user]: mallory may not set this to "victim"; name yourself or nobody' in said
    assert "may not" in say(Day(day.real, "kube-system"), "forged-there", "victim", "mallory")[1]
    assert say(day, "honest", "mallory", "mallory")[0] == 0
    for change in ("volcano.sh/user=victim", "volcano.sh/user-"):
        assert (
            "mallory may not set this to"
            in kubectl.tried("annotate", "--as=mallory", "--overwrite", "pod", "honest", change)[1]
        )
    kubectl("annotate", "--as=mallory", "pod", "honest", "some.body/else=may-change")
    assert "may not" in say(day, "copied-from-a-template", "victim", REPLICA_SETS)[1]

    kubectl("create", "clusterrole", "be-victim", "--verb=impersonate", "--resource=users", "--resource-name=victim")
    kubectl("create", "clusterrolebinding", "be-victim", "--clusterrole=be-victim", "--user=mallory")
    until(lambda: kubectl.tried("auth", "can-i", "impersonate", "users/victim", "--as=mallory")[0] == 0)
    assert say(day, "allowed-meanwhile", "victim", "mallory")[0] == 0
    assert say(day, "for-another", "dora", OURS)[0] == 0, "our controllers copy it from what was judged"


def _lead_to(real: Real, port: int) -> None:
    """Have the API server ask there."""
    assert pumice(real.admin, "install", "--webhook-url", f"https://127.0.0.1:{port}")[0] == 0
