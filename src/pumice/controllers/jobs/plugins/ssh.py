"""``ssh``: the pods of a job log in to each other without a password.

A Secret ``JOB-ssh`` holds a key pair, the public key once more as the keys that may log in, and a client configuration
that knows the pods by their host names. It is created once and never changed: pods that run would not see new keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pumice.admission.jobs.plugin_arguments import SshArguments
from pumice.controllers.jobs.plugins.plugin import JobPlugin, PodDraft, host_names, owned_metadata
from pumice.controllers.jobs.plugins.svc import HOSTS_FOLDER
from pumice.controllers.jobs.spec import Job, Task
from pumice.kube.resources import SECRETS, Document, Resource

PRIVATE_KEY, PUBLIC_KEY, AUTHORIZED_KEYS, CONFIG = "id_rsa", "id_rsa.pub", "authorized_keys", "config"
FOLDER: Final = ".ssh"
ROOT_FOLDER: Final = f"/root/{FOLDER}"
"""Where sshd in the container looks for the keys of root."""
KEY_BITS: Final = 2048
ROOT_MODE, OTHER_MODE = 0o600, 0o644
"""Modes of the files: sshd rejects files of root that others can read; other users do not own theirs and must read."""


@dataclass(frozen=True, slots=True)
class SshPlugin(JobPlugin):
    """Keys, and where pods find them."""

    arguments: SshArguments

    @property
    def folder(self) -> str:
        """Where the keys are mounted."""
        return self.arguments.ssh_key_file_path or (
            f"{HOSTS_FOLDER}/{FOLDER}" if self.arguments.no_root else ROOT_FOLDER
        )

    def objects(self, job: Job) -> Iterator[tuple[Resource[Document], Document]]:
        """The Secret; without given keys the controller adds a new pair (``with_key_pair``) when it creates it."""
        data = {CONFIG: client_config(job, self.arguments.ssh_port)}
        if self.arguments.ssh_private_key:
            data |= _keys(self.arguments.ssh_private_key, self.arguments.ssh_public_key)
        about = owned_metadata(job, secret_name(job))
        yield SECRETS, {"apiVersion": "v1", "kind": SECRETS.kind, "metadata": about, "stringData": data}

    def equip(self, job: Job, task: Task, index: int, pod: PodDraft) -> None:
        """Mount the Secret."""
        name = secret_name(job)
        files = (PRIVATE_KEY, PUBLIC_KEY, AUTHORIZED_KEYS, CONFIG)
        source = {
            "secretName": name,
            "items": [{"key": file, "path": f"{FOLDER}/{file}"} for file in files],
            "defaultMode": ROOT_MODE if self.folder == ROOT_FOLDER else OTHER_MODE,
        }
        # As a subPath, files are not links into another folder, which sshd would reject.
        mount = {"name": name, "mountPath": self.folder, "subPath": FOLDER}
        pod.mount({"name": name, "secret": source}, mount)


def secret_name(job: Job) -> str:
    """The name of the Secret with the keys."""
    return f"{job.name}-ssh"


def client_config(job: Job, port: int) -> str:
    """The configuration of ssh: pods are known by their host names, and their keys are not checked, being new."""
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in job.tasks:
        for name in host_names(job, task):
            lines += [f"Host {name.partition('.')[0]}", f"  HostName {name}", f"  Port {port}"]
    return "\n".join([*lines, ""])


def with_key_pair(secret: Document) -> Document:
    """A Secret with a new pair of keys, unless it has keys. This takes a tenth of a second of computing."""
    if PRIVATE_KEY in secret["stringData"]:
        return secret
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return {**secret, "stringData": {**secret["stringData"], **_keys(private.decode(), public.decode() + "\n")}}


def _keys(private: str, public: str) -> dict[str, str]:
    return {PRIVATE_KEY: private, PUBLIC_KEY: public, AUTHORIZED_KEYS: public}
