"""Defaults of a new pod that the cluster adds: priority, service account, tolerations.

In a real cluster admission plugins set them before validation; what they reject is forbidden, not invalid.
"""

from __future__ import annotations

from typing import Final

from kubesim.api import status
from kubesim.api.status import ApiError
from kubesim.kinds.pods.defaults import DEFAULT_ACCOUNT
from kubesim.kinds.pods.names import check_subdomain
from kubesim.kinds.pods.placement import GIVEN
from kubesim.registry.registry import Context, Object

PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
PREEMPTS: Final = "PreemptLowerPriority"

# A real cluster always has these two.
_SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_NO_CLASS: Final[Object] = {"metadata": {"name": ""}, "value": 0}


def admit(pod: Object, context: Context) -> None:
    """Give a new pod what the cluster decides."""
    spec: Object = pod["spec"]
    _set_priority(pod, spec, context)
    _set_account(pod, spec, context)


def tolerate(spec: Object) -> None:
    """Add the default tolerations of not-ready and unreachable nodes, unless the pod has its own."""
    tolerations: list[Object] = spec.get("tolerations", [])
    missing = [given for given in GIVEN if not any(_covers(toleration, given) for toleration in tolerations)]
    if missing:
        spec["tolerations"] = tolerations + [dict(given) for given in missing]


def _covers(toleration: Object, given: Object) -> bool:
    return bool(toleration.get("key", given["key"]) == given["key"]) and toleration.get("effect") in {None, "NoExecute"}


def keep_priority(spec: Object, old: Object) -> None:
    """A later version of a pod need not repeat the priority it was given."""
    for name in ("priority", "preemptionPolicy"):
        if name not in spec and name in old:
            spec[name] = old[name]


def _set_priority(pod: Object, spec: Object, context: Context) -> None:
    name = spec.get("priorityClassName", "")
    found = _named(pod, name, context) if name else _default_class(context)
    if found["metadata"]["name"]:
        spec["priorityClassName"] = found["metadata"]["name"]
    priority, policy = found.get("value", 0), found.get("preemptionPolicy", PREEMPTS)
    if spec.get("priority", priority) != priority:
        raise _refusal(
            pod,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission "
            f"controller computed {priority} from the given PriorityClass name",
        )
    if spec.get("preemptionPolicy", policy) != policy:
        raise _refusal(
            pod,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    spec["priority"], spec["preemptionPolicy"] = priority, policy


def _named(pod: Object, name: str, context: Context) -> Object:
    found = context.find(PRIORITY_CLASSES, "", name)
    if found is not None:
        return found
    if name in _SYSTEM:
        return {"metadata": {"name": name}, "value": _SYSTEM[name]}
    raise _refusal(pod, f"no PriorityClass with name {name} was found")


def _default_class(context: Context) -> Object:
    """The class of pods that name none: of those marked as default, the lowest."""
    marked = (found for found in context.list(PRIORITY_CLASSES, "") if found.get("globalDefault"))
    return min(marked, key=lambda found: (found.get("value", 0), found["metadata"]["name"]), default=_NO_CLASS)


def _set_account(pod: Object, spec: Object, context: Context) -> None:
    """Set the service account. A named one must exist; the default one is assumed to."""
    account = spec.setdefault("serviceAccountName", DEFAULT_ACCOUNT)
    spec["serviceAccount"] = account
    namespace = pod["metadata"].get("namespace", "")
    if any(check_subdomain(account, "")):
        return  # there can be none of that name; the checks will say why
    if account != DEFAULT_ACCOUNT and context.find("serviceaccounts", namespace, account) is None:
        raise _refusal(
            pod, f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
        )


def _refusal(pod: Object, detail: str) -> ApiError:
    return status.forbidden("pods", "", pod["metadata"].get("name", ""), detail)
