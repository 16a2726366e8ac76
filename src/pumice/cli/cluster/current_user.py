"""The user as whom the API server knows the caller: the one whom admission writes into jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Client

REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ONLY_USER: Final = "admin"
"""The user of all requests to ``pumice up``, which has no users and does not serve the review."""


def current_user(client: Client) -> str:
    """The name of the user of this kubeconfig."""
    from pumice.kube.client.api_errors import ApiError

    try:
        review = client.create(REVIEWS, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    except ApiError as error:
        if error.not_found:
            return ONLY_USER
        raise
    return str(review["status"]["userInfo"]["username"])
