"""The names and paths of resources, for commands that need no more of them; ``resources`` has their types."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class ResourceName:
    """A resource of a Kubernetes API."""

    api_version: str
    plural: str
    kind: str
    namespaced: bool = field(default=True, kw_only=True)

    @property
    def name(self) -> str:
        """``pods``, or ``queues.scheduling.volcano.sh`` outside the core group."""
        group = self.api_version.rpartition("/")[0]
        return f"{self.plural}.{group}" if group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Where the collection is (of a namespace, or of all), or one of its objects, or a part of that."""
        root = "/apis/" if "/" in self.api_version else "/api/"
        found = root + self.api_version
        if namespace and self.namespaced:
            found += f"/namespaces/{_quoted(namespace)}"
        found += f"/{self.plural}"
        if name:
            if self.namespaced and not namespace:
                raise ValueError(f"a namespace is required for {self.kind} {name}: {self.plural} are namespaced")
            found += f"/{_quoted(name)}"
        return f"{found}/{subresource}" if subresource else found


def _quoted(name: str) -> str:
    """A name as a path has it. Most have nothing to quote."""
    return name if _PLAIN.fullmatch(name) else quote(name, safe="")


_PLAIN = re.compile(r"[-.a-z0-9]+")

JOB = ResourceName("batch.volcano.sh/v1alpha1", "jobs", "Job")
NODE = ResourceName("v1", "nodes", "Node", namespaced=False)
