"""Settings of preemption: which pods may be evicted, which jobs may preempt, and how long a job may wait.

Pods, PodGroups and Jobs have some of them in annotations or labels, pods and priority classes others in a field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kubebase.field_error import FieldError
from pumice.kube.decode import api_types
from pumice.kube.decode.struct_decode import check_printable, one_of
from pumice.kube.selectors import label_selector
from pumice.model.duration import DurationError, microseconds_of
from pumice.model.specs import DisruptionBudget

PREEMPTABLE = "volcano.sh/preemptable"
USER = "volcano.sh/user"
QUEUE_NAMES = ("volcano.sh/queue-name", "scheduling.volcano.sh/queue-name")
"""Annotations with which a namespace or a pod names a queue; if both are there the first counts.

The first may also be a label of a pod, as it is of the pods of Volcano Jobs.
"""
WAITING_TIMES = ("volcano.sh/sla-waiting-time", "sla-waiting-time")

_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_POLICIES = {"PreemptLowerPriority": True, "Never": False}


def preemptable(metadata: api_types.Metadata) -> bool | None:
    """Whether an object's pods may be evicted; None: not set."""
    if PREEMPTABLE not in metadata.annotations and PREEMPTABLE not in metadata.labels:
        return None
    for place, texts in (("annotations", metadata.annotations), ("labels", metadata.labels)):
        text = texts.get(PREEMPTABLE)
        if text is not None:
            found = _BOOLEANS.get(text.lower())
            if found is None:
                raise FieldError(
                    f"metadata.{place}[{PREEMPTABLE}]", f"Invalid value: {text!r}: must be 'true' or 'false'"
                )
            return found
    return None


def preempts(policy: str, where: str) -> bool | None:
    """Whether a preemptionPolicy lets others be evicted; None: it is not given."""
    return _POLICIES[one_of(policy, _POLICIES, where)] if policy else None


def user(metadata: api_types.Metadata) -> str | None:
    """The user of an object; None: not set."""
    found = metadata.annotations.get(USER) or None
    if found is not None:
        check_printable(found, f"metadata.annotations[{USER}]")
    return found


def queue_name(annotations: Mapping[str, str], labels: Mapping[str, str] | None = None) -> str:
    """The queue that the annotations of a namespace or a pod name, or else the labels of a pod; empty: none."""
    named = next((annotations[name] for name in QUEUE_NAMES if annotations.get(name)), "")
    return named or (labels or {}).get(QUEUE_NAMES[0], "")


def longest_wait(metadata: api_types.Metadata) -> int | None:
    """How long a job may stay Pending, in microseconds; None: not set."""
    for name in WAITING_TIMES:
        text = metadata.annotations.get(name)
        if text:
            try:
                return microseconds_of(text)
            except DurationError as error:
                raise FieldError(f"metadata.annotations[{name}]", str(error)) from None
    return None


def budget(manifest: api_types.PodDisruptionBudget, namespace: str) -> DisruptionBudget:
    """The budget that an object describes.

    With neither number an API server accepts it and its disruption controller allows no eviction, so that is
    what it means here.
    """
    spec = manifest.spec
    least, most = spec.min_available, spec.max_unavailable
    if least is not None and most is not None:
        raise FieldError(
            "spec.maxUnavailable", "Forbidden: may not be set together with minAvailable; remove one of them"
        )
    number, percent = (0, False) if most is None else _amount(most, "spec.maxUnavailable")
    if least is not None:
        number, percent = _amount(least, "spec.minAvailable")
    return DisruptionBudget(
        namespace=namespace,
        name=manifest.metadata.name,
        selector=label_selector(spec.selector, (), "spec.selector"),
        min_available=None if least is None else number,
        max_unavailable=number if least is None else None,
        percent=percent,
    )


def _amount(value: int | str, where: str) -> tuple[int, bool]:
    """A number of pods or a percentage of them, and which of the two it is."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,2}%|100%", value, re.ASCII):
        return int(value[:-1]), True
    if isinstance(value, int) and 0 <= value < 2**31:
        return value, False
    raise FieldError(
        where, f"Invalid value: {value!r}: must be a number of pods such as 2, or a percentage from 0% to 100%"
    )
