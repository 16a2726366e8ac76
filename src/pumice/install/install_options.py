"""What an administrator may choose."""

from __future__ import annotations

from dataclasses import dataclass

from pumice import __version__
from pumice.engine.config.scheduler_config import DEFAULT_CONFIG
from pumice.kube.decode.convert import SCHEDULERS

INSTALL_NAME = "pumice"
"""What is only once in a cluster is called so; the rest begins with it."""
OWN_SCHEDULER = "pumice"
VOLCANO_ACCOUNTS = "system:serviceaccount:volcano-system:"
"""How the accounts of Volcano begin."""


@dataclass(frozen=True, slots=True)
class InstallOptions:
    """How Pumice is installed."""

    namespace: str = "pumice-system"
    image: str = f"pumice:{__version__}"
    replicas: int = 2
    """Of each component. One of them works, the others wait; webhooks all answer."""
    configuration: str = DEFAULT_CONFIG
    """The scheduler's, as its file has it."""
    beside_volcano: bool = False
    """Leave everything to Volcano that is Volcano's: definitions, jobs, and pods that name it as their scheduler."""
    webhooks: bool = True
    webhook_url: str = ""
    """Where the API server finds the webhooks, if they do not run in the cluster."""
    service_monitor: bool = False
    """Whether the Prometheus operator is told of the metrics."""

    @property
    def schedulers(self) -> tuple[str, ...]:
        """Whose pods are ours: those that name one of these."""
        return (OWN_SCHEDULER,) if self.beside_volcano else tuple(sorted(SCHEDULERS))


def labels(component: str = "") -> dict[str, str]:
    """What our objects are known by, and those of one component."""
    found = {"app.kubernetes.io/name": INSTALL_NAME, "app.kubernetes.io/part-of": INSTALL_NAME}
    return {**found, "app.kubernetes.io/component": component} if component else found
