"""The kind ServiceAccount. Objects are stored and shown; no tokens are issued."""

from __future__ import annotations

from functools import partial
from typing import Final

from kubesim.kinds.schema_dsl import OBJECT_REFERENCE, expand_schema
from kubesim.registry.registry import Resource, Strategy
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

SHAPES: Final = (
    """
ServiceAccount
  automountServiceAccountToken bool
  imagePullSecrets [NameReference]
  secrets [ObjectReference] by name
NameReference
  name text
"""
    + OBJECT_REFERENCE
)


class ServiceAccountStrategy(Strategy):
    """Nothing of its own but what a deletion answers."""

    returns_deleted = True


def service_accounts() -> Resource:
    """The resource ``serviceaccounts``."""
    return Resource(
        group="",
        version="v1",
        plural="serviceaccounts",
        kind="ServiceAccount",
        namespaced=True,
        schema=Schema.sound(partial(expand_schema, SHAPES, "ServiceAccount")),
        strategy=ServiceAccountStrategy(),
        columns=(NAME, AGE),
        singular="serviceaccount",
        short_names=("sa",),
    )
