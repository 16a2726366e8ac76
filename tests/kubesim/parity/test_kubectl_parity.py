"""The same commands, the same outputs: kubectl on ``pumice up`` and on a real Kubernetes API, side by side.

The scripts in ``kubectl/`` are typed on both at once. Scheduler, nodes and rules of admission are ours on both; what
makes pods of Deployments and Jobs, deletes namespaces and cleans up is kube-controller-manager there.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.kubernetes import started
from tests.support.api_servers import pumice_up
from tests.support.kubectl_clusters import SPEED, Real
from tests.support.kubectl_scripts import Script, load, play
from tests.support.shell_pages import need_kubectl

SCRIPTS = [script for path in sorted(Path(__file__).parent.glob("kubectl/*.yaml")) for script in load(path)]


@pytest.fixture(scope="module")
def kubeconfigs(real: Real, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    need_kubectl()
    with real.up(everything=True) as there, embedded(tmp_path_factory.mktemp("scheduler")) as here:
        yield there, here


@contextlib.contextmanager
def embedded(folder: Path) -> Iterator[Path]:
    """The embedded server, with a scheduler beside it: where it brings its own it warns who wants another."""
    options = ("--nodes", "3", "--speed", f"{SPEED:g}", "--no-scheduler")
    with pumice_up(*options, everything=True) as (_, kubeconfig):
        scheduler = [sys.executable, "-m", "pumice", "scheduler", "--kubeconfig", str(kubeconfig)]
        with started(folder / "log", [*scheduler, "--metrics-address", ""]):
            yield kubeconfig


@pytest.mark.kube
@pytest.mark.parametrize("script", SCRIPTS, ids=[script.name for script in SCRIPTS])
def test_kubectl_output_equals_real_server(script: Script, kubeconfigs: tuple[Path, Path]) -> None:
    if found := play(script, *kubeconfigs):
        pytest.fail("\n".join([script.about, *found]), pytrace=False)
