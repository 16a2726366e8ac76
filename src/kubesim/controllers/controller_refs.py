"""Controller references: which objects belong to which owner, by the uid in their owner references.

An object that matches the selector of an owner and has no controller is adopted; one that no longer matches is
released. Keys of owners are ``namespace/name/uid``, so that a later owner of the same name is a different one.
"""

from __future__ import annotations

from collections.abc import Callable

from kubebase.label_selector import matches
from kubesim.api.client import InProcessClient
from kubesim.controllers.gc.garbage_collector import split_key
from kubesim.registry.registry import Object
from kubesim.storage import Change

Edit = Callable[[Object], None]
SelectorOf = Callable[[Object], Object]
"""The label selector of an owner."""


def spec_selector(owner: Object) -> Object:
    """The selector of nearly all kinds."""
    return owner["spec"].get("selector") or {}


class ControllerRefs:
    """The children of the owners of one kind; ``wake`` is called with the key of each owner to reconcile."""

    def __init__(
        self,
        api: InProcessClient,
        children: str,
        api_version: str,
        kind: str,
        wake: Callable[[str], None],
        selector_of: SelectorOf = spec_selector,
    ) -> None:
        self._api = api
        self._children = children
        self._kind = (api_version, kind)
        self._kind_in_json = f'"{kind}"'.encode()
        self._enqueue = wake
        self._selector_of = selector_of
        self._children_by_owner: dict[str, set[str]] = {}  # uid of an owner: keys of its children
        self._selectors: dict[str, dict[str, tuple[str, Object]]] = {}  # namespace, name: uid and selector

    # ---- watch events -------------------------------------------------------------------------------------

    def on_owner_change(self, change: Change, *, claims_existing: bool = True) -> None:
        """Handle a change of an owner: it is reconciled. A new one may adopt children that exist."""
        about = change.object["metadata"]
        known = self._selectors.setdefault(about["namespace"], {})
        if change.deleted:
            known.pop(about["name"], None)
        else:
            is_new, selector = about["name"] not in known, self._selector_of(change.object)
            known[about["name"]] = (about["uid"], selector)
            if is_new and selector and claims_existing:
                self._offer_existing(about["namespace"])
        self._enqueue(f"{about['namespace']}/{about['name']}/{about['uid']}")

    def on_child_change(self, change: Change) -> None:
        """Handle a change of a child: its owner is reconciled."""
        if not (self._kind_in_json in change.value or self._selectors):
            return
        child = change.object
        owner = controller_of(child)
        namespace = child["metadata"]["namespace"]
        if owner is None:
            if not change.deleted:
                self._offer_to_owners(change.key, child)
        elif (owner["apiVersion"], owner["kind"]) == self._kind:
            keys = self._children_by_owner.setdefault(owner["uid"], set())
            if change.deleted:
                keys.discard(change.key)
                if not keys:
                    del self._children_by_owner[owner["uid"]]
            else:
                keys.add(change.key)
            self._enqueue(f"{namespace}/{owner['name']}/{owner['uid']}")

    def add_child(self, uid: str, key: str) -> None:
        """Count a created child before its watch event arrives."""
        self._children_by_owner.setdefault(uid, set()).add(key)

    def _offer_to_owners(self, key: str, child: Object) -> None:
        labels = child["metadata"].get("labels") or {}
        namespace = child["metadata"]["namespace"]
        for name, (uid, selector) in self._selectors.get(namespace, {}).items():
            if labels and selector and matches(selector, labels):
                self.add_child(uid, key)
                self._enqueue(f"{namespace}/{name}/{uid}")

    def _offer_existing(self, namespace: str) -> None:
        for child in self._api.list(self._children, namespace):
            if controller_of(child) is None:
                self._offer_to_owners(f"{self._children}/{namespace}/{child['metadata']['name']}", child)

    # ---- claiming children --------------------------------------------------------------------------------

    def children_of(self, uid: str) -> list[Object]:
        """The children of an owner, and those that it may adopt."""
        children = []
        for key in sorted(self._children_by_owner.get(uid, ())):
            child = self._api.read(*split_key(key))
            if child is not None:
                children.append(child)
            else:
                self._children_by_owner[uid].discard(key)
        return children

    async def claim_children(self, owner: Object, *, adopt: Edit, release: Edit, adopts: bool = True) -> list[Object]:
        """The children of an owner, after adopting those that match and releasing those that no longer do."""
        uid, selector = owner["metadata"]["uid"], self._selector_of(owner)
        children = []
        for child in self.children_of(uid):
            holder = controller_of(child)
            fits = matches(selector, child["metadata"].get("labels") or {})
            if holder is not None and holder["uid"] == uid:
                if fits:
                    children.append(child)
                elif not is_being_deleted(owner):
                    await self.modify(child, release)
            elif holder is None and fits and adopts and not is_being_deleted(child) and not is_being_deleted(owner):
                adopted = await self.modify(child, adopt)
                children += [adopted] if adopted else []
        return children

    async def modify(self, child: Object, edit: Edit) -> Object | None:
        """Modify a child by uid; None if it no longer exists."""
        about = child["metadata"]
        return await self._api.modify(self._children, about["namespace"], about["name"], edit, uid=about["uid"])

    async def delete(self, child: Object, propagation: str = "") -> None:
        """Delete a child by uid."""
        about = child["metadata"]
        await self._api.delete(
            self._children, about["namespace"], about["name"], uid=about["uid"], propagation=propagation
        )


def controller_of(found: Object) -> Object | None:
    """The owner reference of an object's controller."""
    return next((o for o in found["metadata"].get("ownerReferences", ()) if o.get("controller")), None)


def is_being_deleted(found: Object) -> bool:
    """Whether an object has a deletion timestamp."""
    return "deletionTimestamp" in found["metadata"]


def new_controller_ref(owner: Object) -> Object:
    """The controller reference to an owner."""
    about = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": about["name"],
        "uid": about["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def add_controller_ref(child: Object, owner: Object) -> None:
    """Add a controller reference to an object without a controller."""
    about = child["metadata"]
    about["ownerReferences"] = [*about.get("ownerReferences", ()), new_controller_ref(owner)]


def remove_controller_ref(child: Object, uid: str) -> None:
    """Remove the reference to a controller."""
    about = child["metadata"]
    about["ownerReferences"] = [owner for owner in about.get("ownerReferences", ()) if owner["uid"] != uid]
