"""The kind Namespace. A deleted namespace stays until it is empty.

The entry ``kubernetes`` in ``spec.finalizers`` keeps it. The namespace controller removes the entry through the
subresource ``finalize``; an ordinary update never changes the finalizers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from kubesim.api import metadata, status
from kubesim.api.field_errors import FieldProblem, invalid
from kubesim.kinds.schema_dsl import expand_schema
from kubesim.registry.registry import Context, Object, Resource, Strategy, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

FINALIZER: Final = "kubernetes"
LABEL: Final = "kubernetes.io/metadata.name"
LASTING: Final = frozenset({"default", "kube-public", "kube-system"})

SHAPES: Final = """
Namespace
  spec! NamespaceSpec
  status! NamespaceStatus
NamespaceSpec
  finalizers [text]
NamespaceStatus
  conditions [NamespaceCondition] by type
  phase text
NamespaceCondition
  lastTransitionTime time
  message text
  reason text
  status! text
  type! text
"""


class NamespaceStrategy(Strategy):
    """Every namespace carries its name as a label, so that selectors can name it."""

    name_faults = staticmethod(metadata.label_name_faults)
    returns_deleted = True

    def on_create(self, new: Object, context: Context) -> None:
        """It starts active, and kept."""
        finalizers = new["spec"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        new["status"] = {"phase": "Active"}
        self._label(new)

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """Nothing but labels and annotations changes."""
        new["spec"] = old["spec"]
        self._label(new)

    def on_status(self, new: Object, old: Object, context: Context) -> None:
        """Its phase follows from whether it is being deleted, and from nothing else."""
        leaving = "deletionTimestamp" in old["metadata"]
        phase = new.setdefault("status", {}).get("phase", "")
        if phase != ("Terminating" if leaving else "Active"):
            detail = (
                "may only be 'Terminating' if `deletionTimestamp` is not empty"
                if leaving
                else "may only be 'Active' if `deletionTimestamp` is empty"
            )
            raise status.invalid("Namespace", "", old["metadata"]["name"], [invalid("status.phase", phase, detail)])
        self._label(new)

    def on_deletion(self, new: Object, context: Context) -> None:
        """From now on nothing can be created in it."""
        name = new["metadata"]["name"]
        if name in LASTING:
            raise status.forbidden("namespaces", "", name, "this namespace may not be deleted")
        new["status"] = {**new.get("status", {}), "phase": "Terminating"}

    def blocks_removal(self, old: Object) -> bool:
        """Whether it is not known to be empty."""
        return bool(old.get("spec", {}).get("finalizers"))

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """Finalizers are qualified names, except for the one of Kubernetes itself."""
        for finalizer in new.get("spec", {}).get("finalizers", ()):
            yield from metadata.check_label_key(finalizer, "spec.finalizers")
            if "/" not in finalizer and finalizer != FINALIZER:
                detail = "name is neither a standard finalizer name nor is it fully qualified"
                yield invalid("spec.finalizers", finalizer, detail)

    def _label(self, new: Object) -> None:
        about = new["metadata"]
        if about.get("name"):
            about["labels"] = {**about.get("labels", {}), LABEL: about["name"]}


def namespaces() -> Resource:
    """The resource ``namespaces``."""
    return Resource(
        group="",
        version="v1",
        plural="namespaces",
        kind="Namespace",
        namespaced=False,
        schema=Schema.sound(partial(expand_schema, SHAPES, "Namespace")),
        strategy=NamespaceStrategy(),
        columns=(
            NAME,
            TableColumn(
                "Status", lambda found: found["status"].get("phase", ""), description="The phase of the namespace."
            ),
            AGE,
        ),
        singular="namespace",
        short_names=("ns",),
        subresources=frozenset({"status", "finalize"}),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        fields={"status.phase": ("status", "phase")},
    )
