from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml

from kubebase.field_error import FieldError
from pumice.kube.client.kubeconfig import Access, default_paths, read_kubeconfig


def config(name="a", server="https://127.0.0.1:6443", user=None, cluster=None, current=True, **context):
    return {
        "clusters": [{"name": name, "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **context}}],
    } | ({"current-context": name} if current else {})


def write(path: Path, document) -> Path:
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return path


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


def test_kubeconfig_with_inline_data_is_read(tmp_path):
    user = {"token": "t", "client-certificate-data": encoded(b"cert"), "client-key-data": encoded(b"key")}
    cluster = {"certificate-authority-data": encoded(b"ca"), "tls-server-name": "x"}
    path = write(tmp_path / "config", config(user=user, cluster=cluster, namespace="ns", server="https://h:1/"))
    assert read_kubeconfig(path) == Access("https://h:1", "ns", "t", b"ca", b"cert", b"key", True, "x")


def test_files_are_found_beside_the_kubeconfig(tmp_path):
    (tmp_path / "ca.crt").write_bytes(b"ca")
    (tmp_path / "token").write_text("secret\n")
    path = write(tmp_path / "config", config(user={"tokenFile": "token"}, cluster={"certificate-authority": "ca.crt"}))
    access = read_kubeconfig(path)
    assert (access.authority, access.token, access.namespace) == (b"ca", "secret", "default")


def test_a_token_file_wins_over_a_token_beside_it(tmp_path):
    (tmp_path / "token").write_text("rotated\n")
    access = read_kubeconfig(write(tmp_path / "config", config(user={"token": "old", "tokenFile": "token"})))
    assert (access.token, access.token_file) == ("rotated", tmp_path / "token")


def test_first_of_several_kubeconfigs_wins_for_each_entry(tmp_path):
    first = write(tmp_path / "one", config("a", "http://first", current=False))
    second = write(tmp_path / "two", config("a", "http://second") | {"current-context": "b"})
    third = write(tmp_path / "three", config("b", "http://third", user={"token": "3"}))
    listed = ":".join(map(str, [tmp_path / "absent", first, second, third]))
    access = read_kubeconfig(environment={"KUBECONFIG": listed})
    assert (access.server, access.token) == ("http://third", "3")
    assert read_kubeconfig(context="a", environment={"KUBECONFIG": listed}).server == "http://first"


def test_default_kubeconfig_is_in_home_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_paths({}) == [tmp_path / ".kube" / "config"]
    assert default_paths({"KUBECONFIG": ""}) == [tmp_path / ".kube" / "config"]


def test_default_kubeconfig_is_not_found_without_home_directory(monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.path.expanduser", str)  # as with a user whom the machine does not know
    assert not any(path.exists() for path in default_paths({}))
    with pytest.raises(FieldError, match=r"~/\.kube/config: file not found"):
        read_kubeconfig(environment={})


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (config(current=False), "config: current-context: Required value"),
        (config() | {"current-context": "z"}, "config: current-context: Not found: 'z': known contexts are a"),
        (config() | {"clusters": []}, "config: contexts[a].cluster: Not found: 'a': known clusters are none"),
        (config() | {"users": []}, "config: contexts[a].user: Not found: 'a': known users are"),
        (config(server="127.0.0.1"), "config: clusters[a].cluster.server: Invalid value: '127.0.0.1'"),
        (config(user={"client-key-data": "*"}), "config: users[a].user.client-key-data: Invalid value: must be base64"),
        (
            config(user={"client-key-data": encoded(b"k")}),
            "users[a].user.client-certificate: certificate and key must be given together",
        ),
        (
            config(user={"auth-provider": {"name": "gcp"}}),
            "users[a].user.auth-provider: auth providers are not supported: Kubernetes 1.26 removed those of gcp and",
        ),
        (config(user={"username": "u"}), "users[a].user.username: Kubernetes 1.19 removed basic authentication; use a"),
        (config(cluster={"certificate-authority": "no.crt"}), "no.crt: No such file"),
        ("a: [", "not valid YAML"),
        ("[]", "config: Invalid value: list: must be a mapping"),
        ("clusters: 3", "config: clusters: must be a list"),
    ],
)
def test_errors_name_file_and_field(document, complaint, tmp_path):
    path = write(tmp_path / "config", document)
    with pytest.raises(FieldError) as refused:
        read_kubeconfig(path)
    assert str(tmp_path) in str(refused.value)
    assert complaint in str(refused.value)


def test_missing_kubeconfig_is_an_error_with_hint(tmp_path):
    with pytest.raises(FieldError, match="file not found; set KUBECONFIG, or start a cluster with pumice up"):
        read_kubeconfig(environment={"KUBECONFIG": str(tmp_path / "absent")})
