"""The kubeconfig, written without a YAML writer: YAML all the same, and known again as ours."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml

from kubebase.field_error import FieldError
from kubesim.kubeconfig import require_own_kubeconfig, write_kubeconfig

SERVER = "https://[::1]:6440"


@pytest.mark.parametrize("token", ["", "word", "123", "no", "a: b#c", 'say "it"', "{}", "back\\slash"])
@pytest.mark.parametrize("authority", [b"", b"-----BEGIN"])
def test_a_reader_of_yaml_finds_what_was_given(token: str, authority: bytes, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, SERVER, name="acme", token=token, authority=authority)
    encoded = base64.b64encode(authority).decode()
    assert yaml.safe_load(path.read_text()) == {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "acme",
                "cluster": {"server": SERVER} | ({"certificate-authority-data": encoded} if authority else {}),
            }
        ],
        "users": [{"name": "acme", "user": {"token": token} if token else {}}],
        "contexts": [{"name": "acme", "context": {"cluster": "acme", "user": "acme"}}],
        "current-context": "acme",
    }
    require_own_kubeconfig(path, "acme")


def test_plain_http_is_marked_as_insecure_for_the_javascript_client(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, "http://127.0.0.1:6440", name="acme")
    (entry,) = yaml.safe_load(path.read_text())["clusters"]
    assert entry["cluster"] == {"server": "http://127.0.0.1:6440", "insecure-skip-tls-verify": True}
    require_own_kubeconfig(path, "acme")


@pytest.mark.parametrize("kind", ["clusters", "users"])
def test_kubeconfig_with_foreign_entry_is_rejected(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, SERVER, name="acme", token="t")
    path.write_text(path.read_text().replace(f"{kind}:\n", f"{kind}:\n- name: prod\n"))
    with pytest.raises(FieldError, match="other clusters"):
        require_own_kubeconfig(path, "acme")


def test_another_address_in_it_is_no_other_cluster(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, SERVER, name="acme")
    path.write_text(path.read_text().replace(f'"{SERVER}"', "https://elsewhere:6440"))
    require_own_kubeconfig(path, "acme")
