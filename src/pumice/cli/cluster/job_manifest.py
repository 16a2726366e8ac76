"""The Job that options of ``vsub`` describe."""

from __future__ import annotations

TYPE_CHECKING = False  # quick_submit loads this, and not what takes longer than a job: click, typing, dataclasses
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from pumice.kube.client.sync_client import Document

API_VERSION, KIND = "batch.volcano.sh/v1alpha1", "Job"
USER_ANNOTATION = "volcano.sh/user"
TASK_NAME = "main"
GPU = "nvidia.com/gpu"
RUN_SECONDS = "pumice.dev/run-seconds"
FAIL_CODE = "pumice.dev/fail"
ARRAY, AFTER, OUTPUT = "pumice.dev/array", "pumice.dev/after", "pumice.dev/output"


def job_manifest(name: str, *, command: Sequence[str] = (), folder: str = "", **given: Any) -> Document:
    """The Job that the options describe. Fields without an option are left to the defaults of the cluster."""
    replicas = array_size(given["array"]) or given["replicas"]
    requests = given["requests"]
    if given["gpus"] is not None:
        if GPU in requests:
            _refuse(f"--gpus cannot be combined with {GPU} in --requests")
        requests = {**requests, GPU: str(given["gpus"])}
    limits = {resource: amount for resource, amount in requests.items() if "/" in resource} | given["limits"]
    container: dict[str, Any] = {
        "name": TASK_NAME,
        "image": given["image"],
        "command": list(command),
        "workingDir": folder,
        "env": [{"name": key, "value": value} for key, value in given["env"].items()],
        # Of devices and the like a limit is required, and must equal the request.
        "resources": without_empty({"requests": requests, "limits": limits}),
    }
    annotations = {
        RUN_SECONDS: number_text(given["run_seconds"]),
        FAIL_CODE: number_text(given["fail"]),
        OUTPUT: given["output_file"],
    }
    pod = {
        "metadata": without_empty({"labels": given["label"], "annotations": without_empty(annotations)}),
        "spec": without_empty(
            {
                "restartPolicy": "Never",
                "activeDeadlineSeconds": given["seconds"],
                "nodeSelector": given["node_selector"],
                "containers": [without_empty(container)],
            }
        ),
    }
    about = {
        "name": name,
        "labels": dict(given["label"]),
        "annotations": without_empty(
            {USER_ANNOTATION: given["user"], ARRAY: given["array"], AFTER: ",".join(given["after"])}
        ),
    }
    spec = {
        "queue": given["queue"],
        "minAvailable": given["least"],
        "priorityClassName": given["priority"],
        "schedulerName": given["scheduler"],
        "maxRetry": given["max_retry"],
        "ttlSecondsAfterFinished": given["ttl"],
        **_array_fields(given),
        "tasks": [{"name": TASK_NAME, "replicas": replicas, "template": without_empty(pod)}],
    }
    if given["least"] > replicas:
        _refuse(f"--min {given['least']} must not be greater than --replicas {replicas}")
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": without_empty(about),
        "spec": without_empty(spec),
    }


def _refuse(message: str) -> NoReturn:
    import click

    raise click.UsageError(message)


def array_size(text: str) -> int:
    """The number of pods of an array; 0: the job is none."""
    if not text:
        return 0
    from pumice.admission.jobs.job_arrays import parse_array

    return len(parse_array(text).indexes)


def _array_fields(given: dict[str, Any]) -> dict[str, Any]:
    """Fields of a job array: each pod has its index, and the job is complete if all of them succeeded."""
    if not given["array"]:
        return {}
    return {"plugins": {"env": []}, "minSuccess": array_size(given["array"])}


def without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    """Remove empty fields; 0 is kept."""
    return {name: value for name, value in fields.items() if value not in ("", None, {}, [])}


def number_text(number: float | None) -> str:
    """A number as annotations have it; empty if there is none."""
    return "" if number is None else f"{number:g}" if number < 1e6 else f"{number:.0f}"
