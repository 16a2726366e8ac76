"""How a program in a pod reaches its cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubebase.field_error import FieldError
from pumice.kube.client.in_cluster import in_cluster

INSIDE = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    for name, content in (("token", "secret\n"), ("namespace", "batch"), ("ca.crt", "PEM")):
        (tmp_path / name).write_text(content)
    return tmp_path


def test_in_cluster_access_is_read_from_service_account(account):
    found = in_cluster(INSIDE, account)
    assert found is not None
    assert (found.server, found.namespace, found.token) == ("https://10.0.0.1:443", "batch", "secret")
    assert (found.authority, found.token_file, found.verify) == (b"PEM", account / "token", True)


def test_an_address_of_version_6_is_bracketed(account):
    found = in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1"}, account)
    assert found is not None and found.server == "https://[fd00::1]:443"


def test_elsewhere(account, tmp_path):
    assert in_cluster({}, account) is None
    assert in_cluster(INSIDE, tmp_path / "none") is None


def test_an_account_that_is_not_whole(account):
    (account / "ca.crt").unlink()
    with pytest.raises(FieldError, match="cannot read the file"):
        in_cluster(INSIDE, account)
