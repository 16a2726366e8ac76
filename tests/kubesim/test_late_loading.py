"""What a server on loopback does without: it is there when somebody asks for it, and takes no memory until then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import started_process

SECONDS = 30.0

LATER = (
    "_ssl",  # OpenSSL: kubesim.asyncio_without_ssl
    "aiohttp",
    "cryptography",
    "email",  # only one format of texts
    "encodings.idna",  # with it the tables of all scripts
    "hashlib",  # OpenSSL too
    "numpy",
    "prometheus_client",
    "kubebase.cron_schedule",  # with it time zones
    "kubesim.controllers.apps.daemonsets",
    "kubesim.controllers.apps.statefulsets",
    "kubesim.controllers.endpoints",
    "kubesim.controllers.jobs.cron_jobs",
    "kubesim.openapi",
    "kubesim.api.patch",
    "kubesim.protobuf",
    "pumice.cli.cluster",
    "re2",  # the shipped definitions have patterns, which are known to be valid
    "rich",
    "tempfile",
    "yaml",
)

TELLING = "import atexit, sys; atexit.register(lambda: print(*sys.modules)); from pumice.cli.main import main; main()"


def modules_of_a_life(data: Path) -> set[str]:
    """What is loaded at the end of a server that nobody asked for anything."""
    command = [sys.executable, "-c", TELLING, "up", "--data", str(data), "--port", "0"]
    with started_process(
        [*command, "--no-scheduler", "--no-controllers"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline().startswith("export ")
        process.terminate()
        modules, _ = process.communicate(timeout=SECONDS)
    return set(modules.split())


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """At the first start, or at one that finds everything there."""
    data = tmp_path_factory.mktemp("late") / "data"
    return modules_of_a_life(data) | modules_of_a_life(data)


@pytest.mark.parametrize("module", LATER)
def test_idle_server_does_not_load_module(module: str, loaded: set[str]) -> None:
    assert "kubesim.http.listen" in loaded
    assert module not in loaded
