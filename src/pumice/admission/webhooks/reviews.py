"""AdmissionReview (admission.k8s.io/v1): requests of an API server and our responses."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from pumice.admission.request import Object, Refusal, Request

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


class User(Struct, frozen=True):
    """The user who sent the request to the API server."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _Resource(Struct):
    resource: str
    group: str = ""


class ReviewRequest(Struct, rename="camel"):
    """The request of an AdmissionReview."""

    uid: str
    operation: str
    resource: _Resource
    user_info: User = User()
    namespace: str = ""
    sub_resource: str = ""
    object: Object | None = None
    old_object: Object | None = None
    dry_run: bool | None = None

    @property
    def request(self) -> Request:
        """The request in the form of our rules."""
        about = self.resource
        return Request(
            operation=self.operation,
            resource=f"{about.resource}.{about.group}" if about.group else about.resource,
            new=self.object,
            old=self.old_object,
            user=self.user_info.username,
            dry_run=bool(self.dry_run),
            moment=time.time_ns() // 1000,
        )


class _Review(Struct, rename="camel"):
    api_version: str
    kind: str
    request: ReviewRequest


class ReviewError(ValueError):
    """The body is not an AdmissionReview; the message states what is expected."""


class ReviewResponse(Struct, frozen=True):
    """The response of an AdmissionReview."""

    refusals: Sequence[Refusal] = ()
    patch: Sequence[dict[str, Any]] = ()
    warnings: Sequence[str] = field(default_factory=list)


_reviews = msgspec.json.Decoder(_Review)
_encode = msgspec.json.Encoder().encode


def read(body: bytes) -> ReviewRequest:
    """Parse a request. Raises ``ReviewError`` if it is invalid."""
    try:
        review = _reviews.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReviewError(f"not an {KIND}: {error}") from None
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise ReviewError(f"expected {API_VERSION} {KIND}, got {review.api_version} {review.kind}")
    return review.request


def write(asked: ReviewRequest, answer: ReviewResponse) -> bytes:
    """Serialise the response. A well-formed object that violates a rule is Forbidden."""
    response: Object = {"uid": asked.uid, "allowed": not answer.refusals}
    if answer.refusals:
        causes = [{"reason": "Forbidden", "message": one.message, "field": one.field} for one in answer.refusals]
        message = "; ".join(map(str, answer.refusals))
        response["status"] = {"code": 403, "reason": "Forbidden", "message": message, "details": {"causes": causes}}
    elif answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(_encode(answer.patch)).decode()
    if answer.warnings:
        response["warnings"] = list(answer.warnings)
    return _encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})
