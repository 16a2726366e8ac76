"""Credentials that a command supplies: the protocol, the cache, and what errors say. The command is a real one."""

from __future__ import annotations

import base64
import json
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubebase.certificates import issue
from kubebase.timestamps import stamp
from pumice.kube.client.api_errors import CredentialError
from pumice.kube.client.credentials import Credential
from pumice.kube.client.exec_plugin import RETRY_SECONDS, ExecConfig, ExecPlugin, run_command
from pumice.kube.client.kubeconfig import Access, read_kubeconfig
from tests.support.exec_stub import V1, V1BETA1, ExecStub

pytestmark = pytest.mark.process

FIELD = "config: users[a].user.exec"


@pytest.fixture
def stub(tmp_path: Path) -> ExecStub:
    made = ExecStub(tmp_path / "plugin")
    made.answers(token="t")
    return made


class Clock:
    """Both clocks of a plugin."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def config(stub: ExecStub, **more: Any) -> ExecConfig:
    return ExecConfig(**{"field": FIELD, "command": str(stub.command), "api_version": V1, **more})


def plugin(stub: ExecStub, clock: Clock) -> ExecPlugin:
    return ExecPlugin(config(stub), clock=clock, monotonic=clock)


def kubeconfig(folder: Path, user: dict[str, Any], **cluster: Any) -> Path:
    path = folder / "config"
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://h:1", **cluster}}],
        "users": [{"name": "a", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "a"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return path


def plugin_of(access: Access) -> ExecPlugin:
    assert access.exec_plugin is not None
    return access.exec_plugin


# ---- the protocol --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_a_kubeconfig_names_command_arguments_and_variables(version: str, stub: ExecStub, tmp_path: Path) -> None:
    stub.answers(version=version, token="secret")
    more = {"args": ["get-token", "--cluster=x"], "env": [{"name": "STUB_VARIABLE", "value": "v"}]}
    access = read_kubeconfig(kubeconfig(tmp_path, stub.user(version=version, **more)))
    assert not stub.runs  # nothing is run before a request needs it
    assert plugin_of(access).obtain() == Credential("secret")
    (run,) = stub.runs
    assert run["args"] == ["get-token", "--cluster=x"] and run["mine"] == "v" and run["stdin"] == ""
    assert run["info"] == {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}


def test_the_command_is_told_about_the_cluster_if_it_wants_to_know(stub: ExecStub, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"PEM")
    extensions = [
        {"name": "other", "extension": 1},
        {"name": "client.authentication.k8s.io/exec", "extension": {"a": 1}},
    ]
    path = kubeconfig(
        tmp_path,
        stub.user(provideClusterInfo=True),
        extensions=extensions,
        **{"certificate-authority": "ca.crt", "tls-server-name": "n"},
    )
    plugin_of(read_kubeconfig(path)).obtain()
    assert stub.runs[0]["info"]["spec"]["cluster"] == {
        "server": "https://h:1",
        "tls-server-name": "n",
        "certificate-authority-data": base64.b64encode(b"PEM").decode(),
        "config": {"a": 1},
    }


def test_a_command_with_a_slash_is_found_beside_the_kubeconfig(stub: ExecStub, tmp_path: Path) -> None:
    user = stub.user(command=f"plugin/{stub.command.name}")
    assert plugin_of(read_kubeconfig(kubeconfig(tmp_path, user))).obtain().token == "t"


def test_a_command_without_one_is_found_in_path(
    stub: ExecStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(stub.folder), prepend=":")
    user = stub.user(command=stub.command.name)
    assert plugin_of(read_kubeconfig(kubeconfig(tmp_path, user))).obtain().token == "t"


def test_a_client_certificate(stub: ExecStub) -> None:
    made = issue(("client",))
    stub.answers(clientCertificateData=made.certificate.decode(), clientKeyData=made.key.decode())
    found = run_command(config(stub))
    assert (found.token, found.certificate, found.key) == ("", made.certificate, made.key)
    assert "PRIVATE" not in repr(found)


def test_an_expiry_as_go_writes_it(stub: ExecStub) -> None:
    stub.answers(token="t", expirationTimestamp="1970-01-01T01:00:00.123456789+01:00")
    assert run_command(config(stub)).expires == 0.123456


# ---- what is wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        (
            {"apiVersion": "client.authentication.k8s.io/v1alpha1"},
            "exec.apiVersion: Unsupported value: 'client.authentication.k8s.io/v1al",
        ),
        (
            {"apiVersion": None},
            "exec.apiVersion: Unsupported value: None: supported values: client.authentication.k8s.io/v1, ",
        ),
        ({"command": None}, "exec.command: Required value: the command that prints the credentials"),
        (
            {"interactiveMode": None},
            (
                "exec.interactiveMode: Required value for client.authentication.k8s.io/v1: supported "
                "values: Never, IfAvail"
            ),
        ),
        ({"interactiveMode": "Maybe"}, "Unsupported value: 'Maybe': supported values: Never, IfAvailable, Always"),
        ({"args": "a"}, "exec.args: must be a list of strings"),
        ({"env": [{"name": "A", "value": 1}]}, "exec.env[0]: Required value: name and value, both strings"),
        ({"env": "A=1"}, "exec.env[0]: Invalid value: str: must be a mapping"),
    ],
)
def test_entries_that_cannot_be_used(entry: dict[str, Any], complaint: str, stub: ExecStub, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="config: users") as refused:
        read_kubeconfig(kubeconfig(tmp_path, stub.user(**entry)))
    assert complaint in str(refused.value)


def test_v1beta1_may_leave_the_mode_out(stub: ExecStub, tmp_path: Path) -> None:
    access = read_kubeconfig(kubeconfig(tmp_path, stub.user(version=V1BETA1, interactiveMode=None)))
    assert plugin_of(access).config.interactive_mode == "IfAvailable"


def test_a_token_or_certificate_beside_it_wins(stub: ExecStub, tmp_path: Path) -> None:
    access = read_kubeconfig(kubeconfig(tmp_path, {"token": "mine", **stub.user()}))
    assert access.exec_plugin is None and access.credential_source().obtain().token == "mine"


def test_a_command_that_is_missing_comes_with_the_hint(stub: ExecStub) -> None:
    with pytest.raises(CredentialError) as failed:
        run_command(config(stub, command="no-such-plugin", install_hint="Install it with: get it"))
    assert (
        str(failed.value) == f"{FIELD}: credential plugin no-such-plugin executable not found\nInstall it with: get it"
    )
    assert not failed.value.sent


def test_a_command_that_may_not_be_run(stub: ExecStub) -> None:
    stub.command.chmod(0o644)
    with pytest.raises(CredentialError, match="stub-plugin cannot be executed: Permission denied"):
        run_command(config(stub))


def test_a_command_that_fails_is_quoted_without_its_arguments(stub: ExecStub) -> None:
    stub.answers(code=7, stderr="Token has expired\nrun: aws sso login\n", stdout="secret")
    with pytest.raises(CredentialError) as failed:
        run_command(config(stub, arguments=("--client-secret=secret",)))
    assert str(failed.value) == (
        f"{FIELD}: credential plugin {stub.command} failed with exit code 7\nToken has expired\nrun: aws sso login"
    )


def test_a_command_that_never_ends_is_ended(stub: ExecStub) -> None:
    stub.answers(token="t", gate=True)
    with pytest.raises(CredentialError, match=r"timed out after 0\.5 s"):
        run_command(config(stub), timeout=0.5)


CERTIFICATE = issue(("client",))


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({"stdout": "hello secret"}, "JSON is malformed"),
        ({"stdout": '{"status": {"token": 3}}'}, "Expected `str | null`, got `int` - at `$.status.token`"),
        ({"stdout": "{}"}, "kind: Invalid value: ''"),
        ({"version": V1BETA1, "token": "t"}, f"apiVersion: Invalid value: '{V1BETA1}': must be '{V1}'"),
        ({}, "status: Required value: must have a token or a client certificate"),
        (
            {"stdout": json.dumps({"apiVersion": V1, "kind": "ExecCredential"})},
            "status: Required value: must have a token",
        ),
        ({"clientCertificateData": "x"}, "status.clientKeyData: Required value"),
        ({"clientKeyData": "x"}, "status.clientCertificateData: Required value"),
        (
            {"clientKeyData": "x", "clientCertificateData": "x"},
            "clientCertificateData and clientKeyData: Invalid value",
        ),
        (
            {"clientKeyData": CERTIFICATE.key.decode(), "clientCertificateData": issue(("b",)).certificate.decode()},
            "clientCertificateData and clientKeyData: Invalid value",
        ),
        (
            {"token": "t", "expirationTimestamp": "soon"},
            "expirationTimestamp: Invalid value: 'soon': must be an RFC 3339 timestamp",
        ),
    ],
)
def test_output_that_cannot_be_used(answer: dict[str, Any], complaint: str, stub: ExecStub) -> None:
    stub.answers(**answer, stderr="a warning")
    with pytest.raises(CredentialError) as failed:
        run_command(config(stub))
    text = str(failed.value)
    assert text.startswith(f"{FIELD}: credential plugin {stub.command} did not print a valid ExecCredential: ")
    assert complaint in text and text.endswith("\na warning") and "secret" not in text


def test_a_command_that_needs_a_terminal_is_not_run_without(stub: ExecStub) -> None:
    with pytest.raises(CredentialError, match=r"requires a terminal \(interactiveMode: Always\)"):
        run_command(config(stub, interactive_mode="Always"))
    assert not stub.runs


# ---- the cache -----------------------------------------------------------------------------------------------------


def test_command_runs_once_for_credential_without_expiry(stub: ExecStub) -> None:
    clock = Clock()
    ours = plugin(stub, clock)
    assert ours.cached() is None
    ours.obtain()
    clock.now += 1e9
    assert ours.cached() == ours.obtain() == Credential("t")
    assert len(stub.runs) == 1


@pytest.mark.parametrize(("life", "kept"), [(3600, 3539), (100, 89)])  # 60 s before; of 100 s, 10 before
def test_credential_is_refreshed_before_expiry(life: int, kept: int, stub: ExecStub) -> None:
    clock = Clock()
    ours = plugin(stub, clock)
    stub.answers(token="first", expirationTimestamp=stamp(clock.now + life))
    ours.obtain()
    stub.answers(token="second", expirationTimestamp=stamp(clock.now + 2 * life))
    clock.now += kept
    assert ours.obtain().token == "first"
    clock.now += 2
    assert ours.obtain().token == "second"
    assert len(stub.runs) == 2


def test_a_refresh_that_fails_costs_nothing_while_the_old_one_is_good(
    stub: ExecStub, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    ours = plugin(stub, clock)
    stub.answers(token="first", expirationTimestamp=stamp(clock.now + 1000))
    ours.obtain()
    stub.answers(code=1, stderr="no network")
    clock.now += 990
    assert ours.obtain().token == "first" and "no network" in caplog.text
    assert ours.obtain().token == "first" and len(stub.runs) == 2  # not at every request
    clock.now += RETRY_SECONDS
    assert ours.obtain().token == "first" and len(stub.runs) == 3
    clock.now += 10
    with pytest.raises(CredentialError, match="no network"):
        ours.obtain()
    stub.answers(token="second")
    with pytest.raises(CredentialError, match="no network"):  # it has just failed
        ours.obtain()
    clock.now += RETRY_SECONDS
    assert ours.obtain().token == "second"


def test_a_refused_credential_is_renewed_once(stub: ExecStub) -> None:
    clock = Clock()
    ours = plugin(stub, clock)
    first = ours.obtain()
    stub.answers(token="second")
    assert ours.renew(first) and ours.obtain().token == "second"
    assert ours.renew(first) and len(stub.runs) == 2  # somebody else was refused the same one
    assert not ours.renew(ours.obtain()) and len(stub.runs) == 2  # not again so soon
    clock.now += RETRY_SECONDS
    assert not ours.renew(ours.obtain()) and len(stub.runs) == 3  # the same token once more is nothing new


def test_many_who_ask_at_once_share_one_run(stub: ExecStub) -> None:
    ours, found = plugin(stub, Clock()), []
    stub.answers(token="t", gate=True)
    threads = [threading.Thread(target=lambda: found.append(ours.obtain())) for _ in range(8)]
    for thread in threads:
        thread.start()
    stub.open_gate()
    for thread in threads:
        thread.join(30)
    assert found == [Credential("t")] * 8 and len(stub.runs) == 1
