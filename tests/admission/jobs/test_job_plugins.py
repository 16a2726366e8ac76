"""The plugins of a Job at admission: those that are added, their arguments, and the tasks they name."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.admission.jobs.plugin_arguments import ARGUMENTS, ArgumentError, SshArguments, parse_arguments
from tests.support.admitted import ask, job, queue, world

AROUND = world(queue("q"))
OF_SVC = "--publish-not-ready-addresses, --disable-network-policy, --inject-hosts-env"
TASKS = [{"name": name, "replicas": 1} for name in ("master", "worker", "head", "ps")]


def submitted(plugins):
    return ask(AROUND, job("j", "q", TASKS, plugins=plugins))


@pytest.mark.parametrize(
    ("given_plugins", "stored"),
    [
        ({"pytorch": []}, {"pytorch": [], "svc": []}),
        ({"tensorflow": []}, {"tensorflow": [], "svc": []}),
        ({"ray": []}, {"ray": [], "svc": []}),
        ({"mpi": []}, {"mpi": [], "svc": [], "ssh": []}),
        (
            {"mpi": [], "svc": ["--disable-network-policy"], "ssh": ["--ssh-port=2022"]},
            {"mpi": [], "svc": ["--disable-network-policy"], "ssh": ["--ssh-port=2022"]},
        ),
        ({"env": [], "svc": [], "ssh": []}, {"env": [], "svc": [], "ssh": []}),
        ({"horovod": []}, {"horovod": []}),
    ],
)
def test_needed_plugins_are_added(given_plugins, stored):
    verdict = submitted(given_plugins)
    assert verdict.allowed
    assert verdict.object["spec"]["plugins"] == stored


def test_job_without_plugins_gets_none():
    assert "plugins" not in ask(AROUND, job("j", "q", TASKS)).object["spec"]


def test_update_without_added_plugins_keeps_them():
    old = submitted({"mpi": []}).object
    new = copy.deepcopy(old)
    new["spec"]["plugins"] = {"mpi": []}
    verdict = ask(AROUND, new, "UPDATE", old)
    assert (verdict.allowed, verdict.object["spec"]["plugins"]) == (True, old["spec"]["plugins"])


def test_update_of_job_from_before_gets_no_plugins():
    old = copy.deepcopy(submitted({"mpi": []}).object)
    old["spec"]["plugins"] = {"mpi": []}
    assert ask(AROUND, copy.deepcopy(old), "UPDATE", old).allowed


@pytest.mark.parametrize(
    ("given_plugins", "message"),
    [
        ({"svc": ["--disable-network-policy=yes"]}, "spec.plugins.svc[0]: Invalid value: 'yes': must be true or false"),
        ({"pytorch": ["--master=master", "--port=http"]}, "spec.plugins.pytorch[1]: Invalid value: 'http': must be a"),
        ({"pytorch": ["--port=65536"]}, "Invalid value: 65536: must be a port, 1 to 65535"),
        ({"ray": ["--clientPort", "0"]}, "spec.plugins.ray[1]: Invalid value: 0: must be a port"),
        ({"pytorch": ["--port"]}, "spec.plugins.pytorch[0]: Invalid value: '--port': needs a value"),
        ({"mpi": ["--master=boss"]}, "spec.plugins.mpi: Not found: 'boss': the job has no such task"),
        ({"ray": ["--head=boss"]}, "spec.plugins.ray: Not found: 'boss': the job has no such task"),
    ],
)
def test_arguments_that_cannot_be_used_are_rejected(given_plugins, message):
    assert message in submitted(given_plugins).message


@pytest.mark.parametrize(
    ("plugin", "argument", "known"),
    [
        ("svc", "--enable-networking", OF_SVC),
        (
            "svc",
            "disable-network-policy",
            OF_SVC,
        ),
        ("env", "-x", "none"),
        ("env", "--", "none"),
        ("env", "", "none"),
    ],
)
def test_arguments_without_effect_are_warned_of(plugin, argument, known):
    verdict = submitted({plugin: [argument]})
    assert verdict.allowed
    assert verdict.object["spec"]["plugins"] == {plugin: [argument]}
    assert verdict.warnings == [
        f"spec.plugins.{plugin}[0]: has no effect; {plugin} has no argument {argument!r}; supported arguments: {known}"
    ]


def test_plugins_without_effect_are_warned_of():
    (unknown,) = submitted({"horovod": [], "env": []}).warnings
    assert unknown.startswith("spec.plugins.horovod: has no effect; supported plugins: env, ")
    assert submitted({"pytorch": ["--master", "boss"]}).warnings == [
        "spec.plugins.pytorch: has no effect; the job has no task 'boss', name one with --master=TASK"
    ]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ((), SshArguments()),
        (("--no-root",), SshArguments(no_root=True)),
        (("-no-root=F",), SshArguments(no_root=False)),
        (("--ssh-key-file-path", "/keys", "-ssh-port=2022"), SshArguments("/keys", ssh_port=2022)),
        (("--ssh-private-key=a=b",), SshArguments(ssh_private_key="a=b")),
        (("--ssh-port=1", "--ssh-port=2"), SshArguments(ssh_port=2)),
        (("--other", "x", "--ssh-port=2"), SshArguments(ssh_port=2)),
    ],
)
def test_arguments_are_read_as_go_reads_flags(arguments, found):
    assert parse_arguments("ssh", arguments).values == found


@given(st.sampled_from(sorted(ARGUMENTS)), st.lists(st.text(max_size=20) | st.just("--port=1"), max_size=4))
def test_any_text_is_arguments_or_an_error_that_names_its_place(plugin, arguments):
    place = 0
    try:
        parse_arguments(plugin, tuple(arguments))
    except ArgumentError as error:
        place = error.index
    assert 0 <= place < max(1, len(arguments))
