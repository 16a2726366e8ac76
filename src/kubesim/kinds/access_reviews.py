"""Access reviews. They are answered and not stored. Without a policy every client of the server may do everything.

Their only verb is ``create``; ``on_create`` turns the review into its answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from kubesim.api import status
from kubesim.api.field_errors import FieldProblem, invalid
from kubesim.api.request_context import RequestContext
from kubesim.kinds.schema_dsl import expand_schema
from kubesim.registry.registry import Context, Object, Resource, Strategy
from kubesim.schema import Schema

REASON: Final = "this server allows every request"
GROUPS: Final = ("system:masters", "system:authenticated")
NAMESPACE_EXTRA: Final = "namespace"
"""In the answer about a user of this machine: the namespace that belongs to it."""

SHAPES: Final = """
SelfSubjectAccessReview
  spec! AccessSpec
  status AccessStatus
AccessSpec
  nonResourceAttributes NonResourceAttributes
  resourceAttributes ResourceAttributes
NonResourceAttributes
  path text
  verb text
ResourceAttributes
  fieldSelector any
  group text
  labelSelector any
  name text
  namespace text
  resource text
  subresource text
  verb text
  version text
AccessStatus
  allowed! bool
  denied bool
  evaluationError text
  reason text

SelfSubjectRulesReview
  spec! RulesSpec
  status RulesStatus
RulesSpec
  namespace text
RulesStatus
  evaluationError text
  incomplete! bool
  nonResourceRules [NonResourceRule]
  resourceRules [ResourceRule]
NonResourceRule
  nonResourceURLs [text]
  verbs [text]
ResourceRule
  apiGroups [text]
  resourceNames [text]
  resources [text]
  verbs [text]

SelfSubjectReview
  status SelfSubjectStatus
SelfSubjectStatus
  userInfo UserInfo
UserInfo
  extra {[text]}
  groups [text]
  uid text
  username text
"""


class _Question(Strategy):
    """Reviews have no name, because they are not stored."""

    @staticmethod
    def name_faults(name: str) -> Iterator[str]:
        """Any name will do."""
        yield from ()


class AccessStrategy(_Question):
    """May I?"""

    def on_create(self, new: Object, context: Context) -> None:
        """Yes, unless a policy says no."""
        asked = new["spec"].get("resourceAttributes")
        policy = isinstance(context, RequestContext) and context.policy is not None
        if not policy:
            new["status"] = {"allowed": True, "reason": REASON}
            return
        denied = _denial(context, asked) if isinstance(asked, dict) else ""
        new["status"] = {"allowed": not denied} | ({"reason": denied} if denied else {})

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """It must be about one thing."""
        spec = new["spec"]
        resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if resource is None and other is None:
            detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            yield invalid("spec.resourceAttributes", None, detail)
        if resource is not None and other is not None:
            detail = "cannot be specified in combination with resourceAttributes"
            yield invalid("spec.nonResourceAttributes", other, detail)


class RulesStrategy(_Question):
    """What may I?"""

    def on_create(self, new: Object, context: Context) -> None:
        """Everything."""
        if not new["spec"].get("namespace"):
            raise status.bad_request("no namespace on request")
        new["spec"] = {}
        if isinstance(context, RequestContext) and not context.privileged:
            problem = "the rules depend on whose an object is; ask with kubectl auth can-i"
            new["status"] = {
                "resourceRules": [],
                "nonResourceRules": [],
                "incomplete": True,
                "evaluationError": problem,
            }
            return
        new["status"] = {
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": False,
        }


class SelfStrategy(_Question):
    """SelfSubjectReview."""

    def on_create(self, new: Object, context: Context) -> None:
        """Answer with the user of the request."""
        found = context.principal if isinstance(context, RequestContext) else None
        if found is None or found.uid < 0:
            new["status"] = {"userInfo": {"username": context.user, "groups": list(GROUPS)}}
            return
        new["status"] = {
            "userInfo": {
                "username": found.name,
                "uid": str(found.uid),
                "groups": [*found.groups, GROUPS[1]],
                "extra": {NAMESPACE_EXTRA: [found.namespace]},
            }
        }


def _denial(context: Context, asked: Object) -> str:
    assert isinstance(context, RequestContext)  # the caller has looked
    group, plural = asked.get("group") or "", asked.get("resource") or ""
    return context.denial(
        asked.get("verb") or "",
        f"{plural}.{group}" if group else plural,
        asked.get("namespace") or "",
        asked.get("name") or "",
        asked.get("subresource") or "",
    )


def reviews() -> Iterator[Resource]:
    """The reviews that ``kubectl auth`` asks for."""
    for group, kind, strategy in (
        ("authorization.k8s.io", "SelfSubjectAccessReview", AccessStrategy()),
        ("authorization.k8s.io", "SelfSubjectRulesReview", RulesStrategy()),
        ("authentication.k8s.io", "SelfSubjectReview", SelfStrategy()),
    ):
        yield Resource(
            group=group,
            version="v1",
            plural=f"{kind.lower()}s",
            kind=kind,
            namespaced=False,
            schema=Schema.sound(partial(expand_schema, SHAPES, kind)),
            strategy=strategy,
            singular=kind.lower(),
            verbs=("create",),
        )
