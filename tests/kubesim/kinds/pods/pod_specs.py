"""Pods to test with."""

from typing import Any

from kubesim.kinds import pods
from kubesim.registry.registry import Object
from tests.kubesim.kinds.strategy_writes import FakeContext, create

RESOURCE = pods.resource()


def container(name: str = "c", image: str = "busybox:1", **fields: Any) -> Object:
    """A container as somebody writes it."""
    return {"name": name, "image": image, **fields}


def pod(*containers: Object, name: str = "p", labels: dict[str, str] | None = None, **spec: Any) -> Object:
    """A pod as somebody writes it."""
    about: Object = {"name": name, **({"labels": labels} if labels else {})}
    return {"metadata": about, "spec": {"containers": list(containers) or [container()], **spec}}


def created(*containers: Object, world: FakeContext | None = None, **fields: Any) -> Object:
    """A pod as it is stored when it is new."""
    return create(RESOURCE, pod(*containers, **fields), world)
