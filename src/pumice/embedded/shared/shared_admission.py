"""Admission on a shared machine: what is in a user's namespace counts and runs as that user, whoever creates it.

The annotation ``volcano.sh/user`` is set from the owner of the namespace, so that neither a template nor a controller
can name another user. Fields that reach beyond the namespace are refused, in the request of the user and, once more,
in the pods and podgroups that controllers make of it. A queue may name the users and groups that it is for.
"""

from __future__ import annotations

from typing import Any, Final

from kubesim.api.request_context import RequestContext
from kubesim.api.status import forbidden
from kubesim.registry.registry import Resource
from pumice.admission import Object
from pumice.admission.request import CRON_JOBS, JOB_FLOWS, JOBS, PODGROUPS, PODS, QUEUES, annotate, annotations_of
from pumice.embedded.admission_hook import EmbeddedAdmission
from pumice.embedded.shared.foreign_fields import foreign_fields
from pumice.embedded.shared.shared_access import SharedMachine
from pumice.kube.decode.preemption_annotations import USER
from pumice.kube.namespace_owner import OWNER_NAME, OWNER_UID, NamespaceOwner, namespace_owner

STAMPED: Final = frozenset({PODS, PODGROUPS, JOBS, JOB_FLOWS, CRON_JOBS})
QUEUED: Final = frozenset({PODGROUPS, JOBS})
QUEUE_USERS: Final = "pumice.dev/users"
"""The annotation of a queue with the users, and ``@group``s, that may submit to it and to the queues below it."""


class SharedAdmission:
    """The rules of Pumice, and those of a machine that several people share."""

    def __init__(self, rules: EmbeddedAdmission, machine: SharedMachine) -> None:
        self._rules = rules
        self._machine = machine

    def admit(
        self, resource: Resource, new: Object, old: Object | None, call: RequestContext, *, dry_run: bool
    ) -> Object:
        """Return the object to store; raise ``ApiError`` if it is refused."""
        if resource.qualified == "namespaces" and not call.privileged:
            _check_owner_unchanged(resource, new, old)
        namespace = new["metadata"].get("namespace") or ""
        owner = namespace_owner(call.find("namespaces", "", namespace)) if namespace else None
        if owner is not None:
            self._check_fields(resource, new, old, call, owner)
            if resource.qualified in STAMPED and annotations_of(new).get(USER) != owner.name:
                new = {**new, "metadata": dict(new["metadata"])}
                annotate(new, USER, owner.name)
        admitted = self._rules.admit(resource, new, old, call, dry_run=dry_run)
        if owner is not None and owner.uid != 0 and resource.qualified in QUEUED:
            self._check_queue(resource, admitted, old, call, owner)
        return admitted

    def admit_deletion(self, resource: Resource, old: Object, call: RequestContext, *, dry_run: bool) -> None:
        """Raise ``ApiError`` if an object must not be deleted."""
        self._rules.admit_deletion(resource, old, call, dry_run=dry_run)

    def _check_fields(
        self, resource: Resource, new: Object, old: Object | None, call: RequestContext, owner: NamespaceOwner
    ) -> None:
        """Refuse fields that reach beyond the namespace; those that are there already were allowed to somebody."""
        made_by_controller = call.privileged and old is None and resource.qualified in {PODS, PODGROUPS}
        if (call.privileged and not made_by_controller) or self._machine.is_administrator(owner.uid):
            return
        if call.principal is not None and call.principal.administrator and not call.privileged:
            return
        namespace = new["metadata"]["namespace"]
        if not call.privileged:
            _check_owners(resource, new, old, call)
        found = foreign_fields(resource.qualified, new, owner.name, namespace)
        if call.privileged:  # the user is stamped, not refused: controllers copy templates
            found = {problem: value for problem, value in found.items() if not problem[0].endswith(f"[{USER}]")}
        if not found:
            return
        before = foreign_fields(resource.qualified, old, owner.name, namespace) if old is not None else {}
        fresh = [problem for problem, value in found.items() if before.get(problem) != value]
        if fresh:
            raise _refused(resource, new, fresh)

    def _check_queue(
        self, resource: Resource, new: Object, old: Object | None, call: RequestContext, owner: NamespaceOwner
    ) -> None:
        """Refuse a job for a queue that is for others."""
        queue = str((new.get("spec") or {}).get("queue") or "")
        if not queue or (old is not None and (old.get("spec") or {}).get("queue") == queue):
            return
        for name in (queue, *(above.name for above in self._rules.view.expanded_tree.above(queue))):
            listed = annotations_of(call.find(QUEUES, "", name) or {}).get(QUEUE_USERS)
            if listed is not None and not _is_listed(listed, owner.name, self._machine.groups(owner.uid)):
                whose = "" if name == queue else f" below queue {name!r}, which"
                reason = (
                    f"queue {queue!r}{whose} is for {listed.strip() or 'nobody'}; user {owner.name!r} may not use it"
                )
                raise _refused(resource, new, [("spec.queue", reason)])


def _check_owners(resource: Resource, new: Object, old: Object | None, call: RequestContext) -> None:
    """An owner is in the same namespace: an object that depends on that of another user could block its deletion."""
    known = {each.get("uid") for each in (old or {}).get("metadata", {}).get("ownerReferences") or ()}
    for at, reference in enumerate(new["metadata"].get("ownerReferences") or ()):
        if reference.get("uid") in known or call.find_owner(reference, new["metadata"]["namespace"]) is not None:
            continue
        field = f"metadata.ownerReferences[{at}]"
        raise _refused(resource, new, [(field, "the owner must be an object of the same namespace")])


def _is_listed(listed: str, user: str, groups: tuple[str, ...]) -> bool:
    names = {name.strip() for name in listed.split(",")}
    return user in names or any(f"@{group}" in names for group in groups)


def _check_owner_unchanged(resource: Resource, new: Object, old: Object | None) -> None:
    """The owner decides as whom processes run: only root, and the server itself, may name one."""
    before: dict[str, Any] = annotations_of(old) if old is not None else {}
    changed = [key for key in (OWNER_NAME, OWNER_UID) if annotations_of(new).get(key) != before.get(key)]
    if changed:
        raise _refused(resource, new, [(f"metadata.annotations[{key}]", "only root may set it") for key in changed])


def _refused(resource: Resource, new: Object, problems: list[tuple[str, str]]) -> Exception:
    causes = [{"reason": "Forbidden", "message": why, "field": field} for field, why in problems]
    told = "; ".join(f"{field}: Forbidden: {why}" for field, why in problems)
    return forbidden(resource.plural, resource.group, new["metadata"].get("name") or "", told, causes)
