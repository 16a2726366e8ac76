"""The Unix socket of a machine that several people share (``pumice up --shared``): found without any kubeconfig."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from kubebase.field_error import FieldError
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.kubeconfig import UNIX_SCHEME, Access
from pumice.kube.client.sync_client import Client

DEFAULT_SOCKET = Path("/run/pumice/api.sock")
VARIABLE = "PUMICE_SOCKET"
LOGIN_PATH = "/pumice.dev/login"
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def find_socket(environment: Mapping[str, str] | None = None) -> Path | None:
    """The socket that the environment names, else the usual one if it is there."""
    environment = os.environ if environment is None else environment
    if named := environment.get(VARIABLE):
        return Path(named)
    try:
        return DEFAULT_SOCKET if stat.S_ISSOCK(DEFAULT_SOCKET.stat().st_mode) else None
    except OSError:
        return None


def socket_access(path: Path) -> Access:
    """Access over a socket, in the namespace that belongs to the caller. Raises ``FieldError``."""
    access = Access(server=f"{UNIX_SCHEME}{path.absolute()}")
    client = Client(access)
    try:
        review = client.create(REVIEWS, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    except UnreachableError as error:
        raise FieldError(str(path), f"nobody answers there: {error}; is pumice up --shared running?") from None
    except ApiError as error:
        raise FieldError(str(path), error.message) from None
    finally:
        client.close()
    namespaces = ((review["status"]["userInfo"]).get("extra") or {}).get("namespace") or ["default"]
    return Access(server=access.server, namespace=namespaces[0])
