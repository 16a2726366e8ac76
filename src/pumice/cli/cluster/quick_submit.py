"""``vsub -- COMMAND`` where pods run as processes, without the libraries of the command line.

To load these takes longer than everything else until the job starts. So the usual command lines are read here, and the
job goes to the Unix socket of the cluster on this machine. Everything else is left to the command itself (``job_run``):
options and values that are not listed here, scripts with options, other clusters, warnings, and all that goes wrong
before the job was sent. What is sent and printed is the same: ``tests/cli/cluster/test_quick_submit.py`` compares.
"""

from __future__ import annotations

import json
import os
import sys

from kubebase.kubeconfig_text import LOCAL_SOCKET, read_kubeconfig_text
from kubebase.local_socket import check_listener, usable_socket
from pumice.cli.cluster.job_manifest import API_VERSION, GPU, job_manifest
from pumice.cli.cluster.process_jobs import any_runs_processes, as_process, generated_name, is_text, passed_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    from pumice.kube.client.blocking_http import Connection

WITH_VALUE = {
    **dict.fromkeys(("-N", "--name"), "other"),
    **dict.fromkeys(("-q", "--queue"), "queue"),
    **dict.fromkeys(("-r", "--replicas"), "replicas"),
    **dict.fromkeys(("-m", "--min"), "least"),
    **dict.fromkeys(("-R", "--requests"), "requests"),
    "--gpus": "gpus",
}
FLAGS = {"--clean-env": "clean", "--wait": "wait"}
COUNTS = frozenset({"replicas", "least", "gpus"})
MOST_DIGITS = 9
UNITS = frozenset({"", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"})
DEFAULTS = {
    **dict.fromkeys(("other", "queue", "array", "output_file", "priority", "scheduler", "user"), ""),
    **dict.fromkeys(("gpus", "seconds", "run_seconds", "fail", "max_retry", "ttl"), None),
    "replicas": 1,
    "least": 1,
    "clean": False,
    "wait": False,
    "name": "",
    "after": (),
    "requests": {"cpu": "1", "memory": "100Mi"},
}
ALWAYS_OFFERED = frozenset({"cpu", "memory", "ephemeral-storage"})
SCRIPT_MARK, SCRIPT_BYTES = b"#PUMICE", 64 * 1024
NODES = "/api/v1/nodes?limit=500"
JOBS = f"/apis/{API_VERSION}/namespaces/default/jobs"
SECONDS = 30.0
OK = 200


class _UnusualError(Exception):
    """The command itself has to see to it."""


def submit(words: Sequence[str]) -> int | None:
    """Submit the job of a command line; the exit status. None: it is not usual, and nothing was sent."""
    connection = None
    try:
        if "_VSUB_COMPLETE" in os.environ:
            return None
        given, command = parse(words)
        server, path, token = _local_server()
        connection = _connect(path)
        headers = {"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        _check_nodes(connection, headers, given)
        body = json.dumps(_job(given, command)).encode()
    except (_UnusualError, OSError, ValueError, LookupError):
        if connection is not None:
            connection.close()
        return None
    try:
        answer = connection.request("POST", JOBS, body, {**headers, "Content-Type": "application/json"})
        content = answer.read()
        made = json.loads(content) if answer.status < 400 else None
    except (OSError, ValueError) as error:
        said = (getattr(error, "strerror", None) or str(error) or type(error).__name__).strip()
        return _as_command(lambda: _unreachable(f"{server}: {said}"))
    finally:
        connection.close()
    if made is None:
        return _as_command(lambda: _refused(answer.status, answer.reason, content, answer.headers))
    return _tell(made, wait=given["wait"])


def parse(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The options of a usual command line, and the command of its processes."""
    given: dict[str, Any] = {}
    here = words.index("--")
    command = list(words[here + 1 :])
    ahead = iter(words[:here])
    for word in ahead:
        name = FLAGS.get(word) or WITH_VALUE.get(word) or ("" if word.startswith("-") else "name")
        value: Any = True if word in FLAGS else next(ahead, "") if word in WITH_VALUE else word
        if not name or not value or name in given or (value is not True and value.startswith("-")):
            raise _UnusualError
        given[name] = _number(value) if name in COUNTS else _amounts(value) if name == "requests" else value
    given = {**DEFAULTS, **given}
    twice = (given["name"] and given["other"]) or (given["gpus"] and GPU in given["requests"])
    values = [] if given["clean"] else [os.environ[name] for name in passed_variables()]
    if not all(map(is_text, [*words, os.getcwd(), *values])):
        raise _UnusualError
    if not command or twice or given["least"] > given["replicas"] or _has_options(command):
        raise _UnusualError
    return given, command


def _job(given: dict[str, Any], command: Sequence[str]) -> dict[str, Any]:
    chosen = {**given, "env": {}, "node_selector": {}, "limits": {}, "label": {}}
    name, other, clean = (chosen.pop(key) for key in ("name", "other", "clean"))
    return job_manifest(name or other or generated_name(command), **as_process(chosen, command, clean=clean))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS and text[0] != "0"):
        raise _UnusualError
    return int(text)


def _amounts(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(","):
        name, _, amount = part.partition("=")
        digits = amount.rstrip("mkMGTi")
        _number(digits)
        if amount[len(digits) :] not in UNITS or name in found or not name or not _is_plain(name):
            raise _UnusualError
        found[name] = amount
    return found


def _is_plain(text: str) -> bool:
    return text.isascii() and text.replace("/", "").replace(".", "").replace("-", "").isalnum()


def _has_options(command: Sequence[str]) -> bool:
    """Whether a command may be a script that sets options."""
    for word in command[:2]:
        if os.path.isfile(word):
            with open(word, "rb") as file:
                if SCRIPT_MARK in file.read(SCRIPT_BYTES):
                    return True
    return False


def _local_server() -> tuple[str, str, str]:
    """The URL of the server in the kubeconfig, its socket on this machine, and the token for it."""
    path = os.environ.get("KUBECONFIG", "")
    if not path and not os.environ.get("PUMICE_SOCKET"):
        path = os.path.expanduser("~/.kube/config")
    if not path or os.pathsep in path:
        raise _UnusualError
    with open(path, "rb") as file:
        found = read_kubeconfig_text(file.read())
    if found is None:
        raise _UnusualError
    cluster = found["clusters"][0]["cluster"]
    (extension,) = [each["extension"] for each in cluster["extensions"] if each["name"] == LOCAL_SOCKET]
    local = usable_socket(extension)
    if not local:
        raise _UnusualError
    return cluster["server"].rstrip("/"), local, found["users"][0]["user"].get("token", "")


def _connect(path: str) -> Connection:
    from pumice.kube.client.blocking_http import Connection

    def connected() -> socket.socket:
        import socket

        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(SECONDS)
        try:
            made.connect(path)
            check_listener(made)
        except OSError:
            made.close()
            raise
        return made

    return Connection(connected, "localhost")


def _check_nodes(connection: Connection, headers: dict[str, str], given: dict[str, Any]) -> None:
    """Whether nodes run processes, and offer what is requested; otherwise the command has something to say."""
    answer = connection.request("GET", NODES, None, headers)
    content = answer.read()
    if answer.status != OK:
        raise _UnusualError
    nodes = json.loads(content)
    offered = {name for node in nodes["items"] for name in node["status"]["allocatable"]} | ALWAYS_OFFERED
    wanted = {*given["requests"], *([GPU] if given["gpus"] else [])}
    if "continue" in nodes["metadata"] or not any_runs_processes(nodes["items"]) or not wanted <= offered:
        raise _UnusualError


# ---- after the job was sent -------------------------------------------------------------------------------


def _tell(made: dict[str, Any], *, wait: bool) -> int | None:
    if (made["metadata"].get("annotations") or {}).get("pumice.dev/routed") or wait:
        return _as_command(lambda: _follow(made, wait=wait))
    queue = (made.get("spec") or {}).get("queue")
    line = f"job.batch.volcano.sh/{made['metadata']['name']} created" + (f" in queue {queue}" if queue else "")
    try:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the command knows how to end then
        return _as_command(lambda: _follow(made, wait=False))
    return 0


def _as_command(action: Callable[[], int | None]) -> NoReturn:
    """End as the command ends: with its messages and its exit status."""
    from pumice.cli.cluster.cluster_command import ClusterCommand
    from pumice.cli.entry_point import run_program

    sys.argv[1:] = []
    run_program(ClusterCommand("vsub", callback=action), "vsub")


def _follow(made: dict[str, Any], *, wait: bool) -> int:
    from pumice.cli.cluster.job_run import tell_created

    tell_created(made, quiet=wait)
    if not wait:
        return 0
    from pumice.cli.cluster.job_wait import wait_for_jobs
    from pumice.kube.client.in_cluster import find_access
    from pumice.kube.client.sync_client import Client

    client = Client(find_access(None, ""))
    try:
        return wait_for_jobs(client, [made])
    finally:
        client.close()


def _unreachable(message: str) -> NoReturn:
    from pumice.kube.client.api_errors import UnreachableError

    raise UnreachableError(message)


def _refused(code: int, reason: str, content: bytes, headers: dict[str, str]) -> NoReturn:
    from pumice.kube.client.api_errors import error_from_response

    raise error_from_response(code, reason, content, headers.get("retry-after", ""))
