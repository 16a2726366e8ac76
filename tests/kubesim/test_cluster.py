"""``kubesim.Cluster``: started and stopped, from a test's thread; what it is given; what its README shows."""

from __future__ import annotations

import json
import re
import sys
import threading
import urllib.request
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import yaml

import kubesim
import pumice
from kubesim import ApiError, Cluster
from kubesim.api.request_context import RequestContext
from kubesim.api.status import forbidden
from kubesim.cluster import InProcessClient
from kubesim.registry.registry import Object, Resource
from tests.support.processes import run_process

README = Path(kubesim.__file__).parent / "README.md"
WIDGETS = "widgets.example.com"
DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": WIDGETS},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True,
             "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                 "size": {"type": "integer"}}}}}}}
        ],
    },
}  # fmt: skip
WIDGET: Object = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}}


class NoLargeWidgets:
    """An admission hook: marks widgets, and refuses large ones."""

    def admit(
        self, resource: Resource, new: Object, old: Object | None, call: RequestContext, *, dry_run: bool
    ) -> Object:
        if resource.qualified == WIDGETS:
            new["metadata"]["labels"] = {"seen": "yes"}
            if new["spec"]["size"] > 9:
                raise forbidden(resource.plural, resource.group, new["metadata"]["name"], "too large")
        return new

    def admit_deletion(self, resource: Resource, old: Object, call: RequestContext, *, dry_run: bool) -> None:
        """Everything may go."""


def fetch(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def test_cluster_context_manager_starts_and_cleans_up() -> None:
    before = set(threading.enumerate())
    with Cluster(nodes=2) as cluster:
        assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+", cluster.url)
        assert len(fetch(f"{cluster.url}/api/v1/nodes")["items"]) == 2
        kubeconfig = cluster.kubeconfig
        assert yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == cluster.url
    assert not kubeconfig.parent.exists()
    assert set(threading.enumerate()) == before
    with pytest.raises(RuntimeError, match="not running"):
        cluster.list("nodes")
    with pytest.raises(RuntimeError, match="not running"):
        _ = cluster.url


def test_several_clusters_in_one_process() -> None:
    first, second = Cluster(nodes=0), Cluster(nodes=0)
    with first, second:
        assert first.url != second.url
        first.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
        assert first.get("configmaps", "a") and not second.get("configmaps", "a")
        with pytest.raises(RuntimeError, match="already"):
            first.start()
    with first:
        assert first.get("configmaps", "a") is None, "it was kept in memory only"


def test_a_folder_keeps_what_was_created(tmp_path: Path) -> None:
    for there in (False, True):
        with Cluster(data=tmp_path / "data", kubeconfig=tmp_path / "kubeconfig") as cluster:
            assert cluster.kubeconfig == tmp_path / "kubeconfig"
            assert (cluster.get("configmaps", "a") is not None) is there
            if not there:
                cluster.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")


@pytest.mark.parametrize("form", ["object", "text", "file"])
def test_custom_resources_and_an_admission_hook(form: str, tmp_path: Path) -> None:
    file = tmp_path / "crd.yaml"
    file.write_text(yaml.safe_dump(DEFINITION))
    given = {"object": DEFINITION, "text": file.read_text(), "file": file}[form]
    with Cluster(nodes=0, crds=[given], admission=NoLargeWidgets()) as cluster:
        made = cluster.create(WIDGET)
        assert made[0]["metadata"]["namespace"] == "default" and made[0]["metadata"]["labels"] == {"seen": "yes"}
        assert fetch(f"{cluster.url}/apis/example.com/v1/widgets")["items"] == cluster.list(WIDGETS)
        with pytest.raises(ApiError, match="too large"):
            cluster.create({**WIDGET, "metadata": {"name": "x"}, "spec": {"size": 10}})
        with pytest.raises(ApiError, match="must be of type integer"):
            cluster.create({**WIDGET, "metadata": {"name": "x"}, "spec": {"size": "ten"}})
        cluster.delete(WIDGETS, "w")
        assert cluster.list(WIDGETS) == []


def test_objects_of_the_cluster_and_of_other_namespaces() -> None:
    with Cluster(nodes=1) as cluster:
        made = cluster.create(
            """
            apiVersion: v1
            kind: Namespace
            metadata: {name: team}
            ---
            apiVersion: v1
            kind: ConfigMap
            metadata: {name: a, namespace: team}
            """.replace("            ", "")
        )
        assert [one["kind"] for one in made] == ["Namespace", "ConfigMap"]
        assert cluster.get("configmaps", "a", "team") and cluster.get("namespaces", "team")
        assert cluster.get("nodes", "node-000")
        with pytest.raises(ApiError, match="nonsense"):
            cluster.create({"apiVersion": "v1", "kind": "nonsense", "metadata": {"name": "a"}})


def test_cluster_start_raises_startup_errors(tmp_path: Path) -> None:
    with Cluster(nodes=0) as cluster, pytest.raises(OSError, match="in use"):
        Cluster(port=int(cluster.url.rpartition(":")[2])).start()
    broken = {**DEFINITION, "spec": {}}
    with pytest.raises(ApiError):
        Cluster(crds=[broken]).start()
    with pytest.raises(ValueError, match="node_capacity: memory is missing"):
        Cluster(node_capacity="cpu=1")


def test_cluster_stop_raises_controller_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(api: InProcessClient, *_: object) -> None:
        raise ZeroDivisionError("the controller has a bug")

    monkeypatch.setattr("kubesim.controllers.quotas.run", run)
    with pytest.raises(ZeroDivisionError, match="has a bug"), Cluster(nodes=0):
        pass


@pytest.fixture
def kube_cluster_options() -> dict[str, Any]:
    return {"nodes": 3}


def test_the_fixture_of_pytest(kube_cluster: Cluster) -> None:
    assert len(kube_cluster.list("nodes")) == 3
    assert [found.value for found in entry_points(group="pytest11", name="kubesim")] == ["kubesim.pytest_plugin"]


# ---- the README ----------------------------------------------------------------------------------------------


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def test_the_example_of_the_readme_prints_what_it_says() -> None:
    example, printed = blocks("python")[0], blocks("text")[0]
    done = run_process([sys.executable, "-c", example], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (printed, "")


def test_the_readme_shows_tests_that_pass(tmp_path: Path) -> None:
    (tmp_path / "test_shown.py").write_text("\n\n".join(reversed(blocks("python")[1:])))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
    done = run_process(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_readme_names_every_argument() -> None:
    table = set(re.findall(r"^\| `(\w+)` \|", README.read_text(), re.MULTILINE))
    code = Cluster.__init__.__kwdefaults__
    assert code is not None and table == set(code)


def test_the_public_names() -> None:
    assert kubesim.__all__ == ["AdmissionHook", "ApiError", "Cluster", "__version__"]
    assert all(getattr(kubesim, name) for name in kubesim.__all__)
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = kubesim.nothing_like_it
    assert kubesim.__version__ == pumice.__version__, "one distribution, one version"


def test_importing_the_package_loads_none_of_it() -> None:
    code = "import sys, kubesim; print(*(name for name in sys.modules if name.startswith(('kubesim', 'asyncio'))))"
    done = run_process([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "kubesim\n"
