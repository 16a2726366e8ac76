"""Settings of the installed pods that depend on the cluster: resources, placement, image pull secrets, labels.

The chart has the same settings under the same names in its values; ``pumice install --pod-settings`` reads them from a
file. Resources are given per component and merged over the defaults; everything else holds for all components.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from kubebase.field_error import FieldError
from pumice.input_errors import BadInput, Problem, did_you_mean
from pumice.kube.decode.struct_decode import read

Object = dict[str, Any]

OWN_LABELS = ("app.kubernetes.io/name", "app.kubernetes.io/part-of", "app.kubernetes.io/component")
"""Labels by which Deployments and Services select the pods: not for users to set."""

DEFAULT_RESOURCES: dict[str, Object] = {
    "scheduler": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "4Gi"}},
    "controllers": {"requests": {"cpu": "100m", "memory": "192Mi"}, "limits": {"memory": "2Gi"}},
    "webhooks": {"requests": {"cpu": "100m", "memory": "192Mi"}, "limits": {"memory": "2Gi"}},
    "ui": {"requests": {"cpu": "100m", "memory": "192Mi"}, "limits": {"memory": "4Gi"}},
}


@dataclass(frozen=True, slots=True)
class PodSettings:
    """Settings of the pods of all components."""

    resources: Mapping[str, Any] = field(default_factory=lambda: DEFAULT_RESOURCES)
    """Of the container of each component."""
    image_pull_secrets: Any = ()
    node_selector: Any = field(default_factory=dict)
    tolerations: Any = ()
    affinity: Any = field(default_factory=dict)
    pod_annotations: Any = field(default_factory=dict)
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    priority_class_name: str = "system-cluster-critical"

    def pod_fields(self) -> Object:
        """The fields of a pod's spec that are set."""
        found = {
            "priorityClassName": self.priority_class_name,
            "imagePullSecrets": self.image_pull_secrets,
            "nodeSelector": self.node_selector,
            "tolerations": self.tolerations,
            "affinity": self.affinity,
        }
        return {name: value for name, value in found.items() if value}


class _Reference(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    name: str


class _File(msgspec.Struct, rename="camel"):
    """The settings as their file has them."""

    resources: dict[str, dict[str, Any]] = {}
    image_pull_secrets: list[_Reference] = []
    node_selector: dict[str, str] = {}
    tolerations: list[dict[str, Any]] = []
    affinity: dict[str, Any] = {}
    pod_annotations: dict[str, str] = {}
    pod_labels: dict[str, str] = {}
    priority_class_name: str = PodSettings().priority_class_name


def read_pod_settings(text: str, source: str) -> PodSettings:
    """The settings in the text of a file; raises BadInput."""
    try:
        document = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise BadInput([Problem(source, "", "", f"not valid YAML: {' '.join(str(error).split())}")]) from None
    try:
        found = read(document, _File)
    except FieldError as error:
        raise BadInput([Problem(source, "", error.field, error.message)]) from None
    problems = [*_unknown(document, _File.__struct_encode_fields__, "", source)]
    problems += _unknown(found.resources, DEFAULT_RESOURCES, "resources.", source)
    problems += [
        Problem(source, "", f"podLabels.{name}", "Forbidden: Pumice sets this label")
        for name in found.pod_labels
        if name in OWN_LABELS
    ]
    if problems:
        raise BadInput(problems)
    return PodSettings(
        {component: _merged(default, found.resources.get(component, {})) for component, default in _defaults()},
        [{"name": one.name} for one in found.image_pull_secrets],
        found.node_selector,
        found.tolerations,
        found.affinity,
        found.pod_annotations,
        found.pod_labels,
        found.priority_class_name,
    )


def _defaults() -> list[tuple[str, Object]]:
    return list(DEFAULT_RESOURCES.items())


def _unknown(given: Mapping[str, Any], known: Any, where: str, source: str) -> list[Problem]:
    return [
        Problem(source, "", f"{where}{name}", f"unknown setting{did_you_mean(str(name), known)}")
        for name in given
        if name not in known
    ]


def _merged(default: Object, given: Mapping[str, Any]) -> Object:
    """The default with what is given in its place, key by key, as Helm merges values; null removes a key."""
    found = dict(default)
    for name, value in given.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(found.get(name), Mapping):
            found[name] = _merged(found[name], value)
        else:
            found[name] = value
    return found
