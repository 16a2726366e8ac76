"""Access to the cluster for a program in one of its pods: the files and variables that the kubelet provides.

The kubelet replaces the token file from time to time, and the file with the authorities when the cluster gets new ones.
So ``transport`` reads them again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kubebase.field_error import FieldError
from pumice.kube.client.kubeconfig import VARIABLE, Access, default_paths, read_kubeconfig
from pumice.kube.client.shared_socket import VARIABLE as SOCKET_VARIABLE
from pumice.kube.client.shared_socket import find_socket, socket_access

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def find_access(kubeconfig: Path | None, context: str) -> Access:
    """The access to the named cluster, else to that of kubectl. Raises ``FieldError``.

    Without any kubeconfig: in a pod to its own cluster, on a machine that several people share to that one.
    """
    if kubeconfig or context or os.environ.get(VARIABLE):
        return read_kubeconfig(kubeconfig, context=context)
    if not os.environ.get(SOCKET_VARIABLE) and any(path.exists() for path in default_paths(os.environ)):
        return read_kubeconfig()
    if found := in_cluster():
        return found
    socket = find_socket()
    return socket_access(socket) if socket is not None else read_kubeconfig()


def in_cluster(environment: Mapping[str, str] | None = None, account: Path = ACCOUNT) -> Access | None:
    """How to reach the cluster that this process runs in; None if it runs in none."""
    environment = os.environ if environment is None else environment
    host, port = environment.get(HOST, ""), environment.get(PORT, "") or "443"
    token, authority = account / "token", account / "ca.crt"
    if not host or not token.exists():
        return None
    try:
        return Access(
            server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
            namespace=(account / "namespace").read_text().strip() or "default",
            token=token.read_text().strip(),
            token_file=token,
            authority=authority.read_bytes(),
            authority_file=authority,
        )
    except OSError as error:
        raise FieldError(str(account), f"cannot read the file: {error.strerror}") from None
