"""What a server on loopback does without: it is there when somebody asks for it, and takes no memory until then."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATER = (
    "aiohttp",
    "cryptography",
    "email",  # only one format of texts
    "hashlib",  # with it more of OpenSSL
    "numpy",
    "prometheus_client",
    "pumice.apiserver.openapi",
    "pumice.apiserver.patching",
    "pumice.apiserver.protobuf",
    "pumice.cli.cluster",
    "rich",
    "tempfile",
)


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    code = (
        "import sys\nfrom pumice.cli.main import cli\ncli.get_command(None, 'up')\n"
        "import pumice.cli.up_lines, pumice.apiserver.up\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", LATER)
def test_it_is_not_loaded_at_the_start(module: str, loaded: set[str]) -> None:
    assert "pumice.apiserver.server" in loaded
    assert module not in loaded
