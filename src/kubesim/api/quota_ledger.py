"""The quota ledger: how much of its ResourceQuotas each namespace uses, and whether a new object still fits.

The usage is kept in memory and follows the newest state, uncommitted writes included: the store calls the ledger for
every write at the moment it is accepted, and the ledger adds the difference between the old and the new usage of the
object. A new object is checked and written without an ``await`` in between. Of two objects of which only one fits, the
second therefore sees the first, and no order of writes exceeds a quota. The usage is a sum over the stored objects and
nothing else. It is recounted, when next needed, after a quota has changed and after a commit has failed, because the
state was then rolled back; a restart recounts too.

(kube-apiserver keeps the usage in ``status.used``. That costs a second write for every object, which may fail or
succeed alone, and the controller that repairs it must also count uncommitted writes.)

A write in a namespace without quotas costs one dictionary lookup. A write in a namespace with quotas costs the
decoding of the objects that are counted, and one pass over them when a quota changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from kubebase.quantity import Quantity, parse
from kubesim.api import status
from kubesim.kinds.pods.quota_usage import ONE, ZERO, Amounts, counts, in_scope, plus, unspecified, usage
from kubesim.registry.registry import Object, Resource, ResourceRegistry
from kubesim.storage import Store

QUOTAS: Final = "resourcequotas"
COUNT: Final = "count/"
BY_NAME: Final = frozenset(
    {"configmaps", "persistentvolumeclaims", "secrets", "services", "replicationcontrollers", QUOTAS}
)
UNCOUNTED: Final = frozenset({"events"})  # they tell what happens when a quota is exceeded

_decode = msgspec.json.Decoder().decode


def counted_in(name: str) -> str:
    """The resource whose objects a name in a quota counts (``jobs.batch`` for ``count/jobs.batch``).

    Empty if it is not counted: it is stored and shown, and limits nothing. The weight of a namespace is such a name.
    """
    if name.startswith(COUNT):
        resource = name.removeprefix(COUNT)
        return "" if resource in UNCOUNTED else resource
    if name in BY_NAME:
        return name
    return "pods" if counts(name) else ""


class QuotaUsage:
    """One quota, and what is used of it."""

    __slots__ = ("_names", "_scopes", "hard", "name", "used")

    def __init__(self, quota: Object) -> None:
        spec = quota["spec"]
        self.name: str = quota["metadata"]["name"]
        self.hard = {name: parse(amount) for name, amount in (spec.get("hard") or {}).items()}
        self._scopes: list[Object] = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
        self._scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
        self._names: dict[str, set[str]] = {}
        for name in self.hard:
            if resource := counted_in(name):
                self._names.setdefault(resource, set()).add(name)
        self.used: Amounts = {name: ZERO for names in self._names.values() for name in names}

    @property
    def resources(self) -> Iterable[str]:
        """The resources that this quota counts."""
        return self._names.keys()

    def _applies_to(self, resource: str, found: Object) -> bool:
        """Whether the quota applies to an object. Scopes match pods only."""
        if resource not in self._names:
            return False
        return not self._scopes or (resource == "pods" and all(in_scope(found, scope) for scope in self._scopes))

    def usage_of(self, resource: str, found: Object | None) -> Amounts:
        """The usage of an object under this quota."""
        if found is None or not self._applies_to(resource, found):
            return {}
        names = self._names[resource]
        if resource == "pods":
            return {name: amount for name, amount in usage(found).items() if name in names}
        return dict.fromkeys(names, ONE)

    def replace_usage(self, before: Amounts, after: Amounts) -> None:
        """Replace the usage of an object."""
        for name, amount in before.items():
            self.used[name] = plus(self.used[name], Quantity(-amount.nano, amount.notation))
        for name, amount in after.items():
            self.used[name] = plus(self.used[name], amount)

    def refusal(self, resource: str, new: Object) -> str:
        """Why a new object exceeds the quota; empty if it does not."""
        if not self._applies_to(resource, new):
            return ""
        if resource == "pods" and (silent := unspecified(new["spec"], self._names[resource])):
            return f"failed quota: {self.name}: must specify {silent}"
        asked = self.usage_of(resource, new)
        over = [
            name
            for name, amount in sorted(asked.items())
            if amount.nano and self.used[name].nano + amount.nano > self.hard[name].nano
        ]
        if not over:
            return ""
        requested, used, hard = (_listed(over, amounts) for amounts in (asked, self.used, self.hard))
        return f"exceeded quota: {self.name}, requested: {requested}, used: {used}, limited: {hard}"


def _listed(names: Sequence[str], amounts: Amounts) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names)


class QuotaLedger:
    """The accounts of all namespaces that have quotas."""

    def __init__(self, store: Store, registry: ResourceRegistry) -> None:
        self._store = store
        self._registry = registry
        self._accounts: dict[str, list[QuotaUsage]] = {}
        self._uncounted: set[str] = set()  # namespaces whose accounts, if they have any, are out of date
        self._failures = -1
        self.moved: Callable[[str], None] = lambda key: None
        """Called with each quota (``NAMESPACE/NAME``) whose usage has changed."""
        store.write_observers.append(self._note)

    def admit(self, resource: Resource, namespace: str, new: Object) -> None:
        """Reject an object that would exceed a quota, as kube-apiserver does."""
        for account in self._of(namespace):
            if refusal := account.refusal(resource.qualified, new):
                raise status.forbidden(resource.plural, resource.group, new["metadata"].get("name", ""), refusal)

    def status(self, quota: Object) -> Object:
        """The status of a quota: its limits, and the usage of what is counted."""
        about = quota["metadata"]
        account = next((a for a in self._of(about["namespace"]) if a.name == about["name"]), None)
        if account is None:
            return {}
        hard = {name: str(amount) for name, amount in sorted(account.hard.items())}
        used = {name: str(amount) for name, amount in sorted(account.used.items()) if self._served(name)}
        return {part: amounts for part, amounts in (("hard", hard), ("used", used)) if amounts}

    def _served(self, name: str) -> bool:
        resource = self._registry.stored(counted_in(name))
        return resource is not None and resource.namespaced

    # ---- counting -----------------------------------------------------------------------------------------

    def _of(self, namespace: str) -> Sequence[QuotaUsage]:
        """The accounts of a namespace, up to date."""
        if self._failures != self._store.failures:
            self._failures = self._store.failures
            self._accounts.clear()
            self._uncounted = {record.key.split("/")[1] for record in self._store.list_latest(f"{QUOTAS}/")}
        if namespace in self._uncounted:
            self._count(namespace)
        return self._accounts.get(namespace, ())

    def _count(self, namespace: str) -> None:
        self._uncounted.discard(namespace)
        self._accounts.pop(namespace, None)
        accounts = [QuotaUsage(_decode(record.value)) for record in self._store.list_latest(f"{QUOTAS}/{namespace}/")]
        if not accounts:
            return
        for resource in {resource for account in accounts for resource in account.resources}:
            for record in self._store.list_latest(f"{resource}/{namespace}/"):
                found: Object = _decode(record.value)
                for account in accounts:
                    account.replace_usage({}, account.usage_of(resource, found))
        self._accounts[namespace] = sorted(accounts, key=lambda account: account.name)

    def _note(self, key: str, value: bytes | None) -> None:
        """A key is about to be written, or (None) deleted."""
        resource, _, rest = key.partition("/")
        namespace, namespaced, _ = rest.partition("/")
        if not namespaced:
            return
        if resource == QUOTAS and self._changes_spec(key, value):
            for account in self._accounts.get(namespace, ()):  # a quota may count quotas
                self.moved(f"{namespace}/{account.name}")
            self._uncounted.add(namespace)
            return
        accounts = [account for account in self._of(namespace) if resource in account.resources]
        if not accounts:
            return
        record = self._store.latest(key)
        old = _decode(record.value) if record else None
        new = None if value is None else _decode(value)
        for account in accounts:
            before, after = account.usage_of(resource, old), account.usage_of(resource, new)
            if before != after:
                account.replace_usage(before, after)
                self.moved(f"{namespace}/{account.name}")

    def _changes_spec(self, key: str, value: bytes | None) -> bool:
        record = self._store.latest(key)
        return record is None or value is None or bool(_decode(record.value)["spec"] != _decode(value)["spec"])
