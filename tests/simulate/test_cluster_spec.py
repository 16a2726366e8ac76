"""The cluster of a simulation: manifests, node groups, queues of the workload, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.input_errors import BadInput
from pumice.simulate.cluster_spec import ClusterSpec, load_cluster
from pumice.simulate.node_groups import read_node_groups
from pumice.simulate.policies import read_policy
from pumice.simulate.workload_file import scan
from tests.simulate.samples import workload_file

QUEUES = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: eng}
spec: {weight: 3}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: prod}
spec: {parent: eng, weight: 1}
"""


def load(folder: Path, queue: str, nodes: str = "2:cpu=4", policy: str = "steer", manifests: str = "") -> ClusterSpec:
    workload = scan(workload_file(folder, f"a,0,{queue},,1,cpu=4,1,1,0\n"))
    (folder / "cluster.yaml").write_text(manifests)
    files = (str(folder / "cluster.yaml"),) if manifests else ()
    return load_cluster(workload, read_policy(policy), files, read_node_groups(nodes, 0))


def said(folder: Path, *arguments: str, **options: str) -> str:
    with pytest.raises(BadInput) as raised:
        load(folder, *arguments, **options)
    return str(raised.value).replace(f"{folder}/", "")


def test_paths_of_the_workload_become_queues(tmp_path: Path) -> None:
    spec = load(tmp_path, "eng/prod")
    assert {queue.name: queue.parent for queue in spec.objects.queues.values()} == {"eng": None, "prod": "eng"}
    assert spec.leaf_of == {"eng/prod": "prod"}


def test_capacity_deserves_by_weight_where_no_manifest_says_otherwise(tmp_path: Path) -> None:
    assert load(tmp_path, "eng/prod", policy="capacity").objects.queues["prod"].deserved == ((0, 8000),)
    assert load(tmp_path, "eng/prod").objects.queues["prod"].deserved == ()


@pytest.mark.parametrize("queue", ["prod", "eng/prod", "root/eng/prod"])
def test_queue_of_the_cluster_is_named_by_name_or_path(tmp_path: Path, queue: str) -> None:
    assert load(tmp_path, queue, manifests=QUEUES).leaf_of == {queue: "prod"}


def test_manifests_of_a_policy_replace_those_of_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "change.yaml").write_text(QUEUES.partition("---")[0].replace("3", "7"))
    spec = load(tmp_path, "prod", policy=f"new={tmp_path / 'change.yaml'}", manifests=QUEUES)
    assert (spec.objects.queues["eng"].weight, spec.objects.queues["prod"].weight) == (7, 1)


def test_unknown_and_inner_queues_are_refused_by_line(tmp_path: Path) -> None:
    text = said(tmp_path, "prd", manifests=QUEUES)
    assert text == "workload.csv:2: queue: there is no queue 'prd' in the cluster, did you mean 'prod'?"
    text = said(tmp_path, "eng", manifests=QUEUES)
    assert text == "workload.csv:2: queue: queue 'eng' has queues below it, so it takes no jobs"


def test_task_larger_than_every_node_is_refused_by_line(tmp_path: Path) -> None:
    first, last = said(tmp_path, "q", "2:cpu=3").splitlines()
    assert first == "workload.csv:2: request: a task with cpu 4 is larger than every node"
    assert last == "workload.csv: 1 job could be read; nothing was run"


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("cpu=3", "--nodes: 'cpu=3' is neither a file nor like 550:cpu=64,nvidia.com/gpu=8"),
        ("0:cpu=3", "--nodes: '0:cpu=3': the number of nodes must be from 1 to 1000000"),
        ("1:cpu=3,cpu=4", "--nodes: '1:cpu=3,cpu=4': 'cpu=4' is there twice"),
    ],
)
def test_node_group_that_cannot_be_read_is_refused(tmp_path: Path, nodes: str, message: str) -> None:
    assert said(tmp_path, "q", nodes) == message


def test_table_of_nodes_is_read(tmp_path: Path) -> None:
    table = tmp_path / "nodes.csv"
    table.write_text("name,cpu_milli,mem_mib,gpu,model,count\nbig,8000,1024,2,V100,3\n")
    spec = load(tmp_path, "q", str(table))
    assert list(spec.objects.nodes) == ["big-0", "big-1", "big-2"]
    assert spec.registry.format(spec.objects.nodes["big-0"].allocatable) == {
        "cpu": "8",
        "memory": "1Gi",
        "nvidia.com/gpu": "2",
        "pods": "110",
    }
    table.write_text("name,cpu_milli,mem_mib,gpu,model,count\nbig,8000,1024,x,V100,3\n")
    assert said(tmp_path, "q", str(table)) == "nodes.csv:2: gpu: 'x' is not a whole number"


def test_job_in_a_manifest_is_refused(tmp_path: Path) -> None:
    pod = "kind: Pod\nmetadata: {name: p}\nspec: {containers: []}\n"
    assert (
        said(tmp_path, "q", manifests=pod)
        == "cluster.yaml: Pod/default/p: kind: jobs come from the workload; remove it"
    )
