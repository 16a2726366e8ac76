"""The options of an installation."""

from __future__ import annotations

from dataclasses import dataclass, field

from pumice import __version__
from pumice.engine.config.scheduler_config import DEFAULT_CONFIG
from pumice.install.pod_settings import PodSettings
from pumice.kube.decode.convert import SCHEDULERS

INSTALL_NAME = "pumice"
"""The name of cluster-wide objects, and the prefix of the names of all others."""
OWN_SCHEDULER = "pumice"
VOLCANO_ACCOUNTS = "system:serviceaccount:volcano-system:"
"""The prefix of the user names of Volcano's service accounts."""


@dataclass(frozen=True, slots=True)
class InstallOptions:
    """The options of an installation."""

    namespace: str = "pumice-system"
    image: str = f"pumice:{__version__}"
    replicas: int = 2
    """Replicas of each component. Of scheduler and controllers one replica leads; all webhooks answer."""
    configuration: str = DEFAULT_CONFIG
    """The scheduler's, as its file has it."""
    beside_volcano: bool = False
    """Leave Volcano's CRDs and jobs to Volcano, and the pods whose schedulerName is volcano."""
    webhooks: bool = True
    webhook_url: str = ""
    """The URL of the webhooks if they run outside the cluster."""
    ui: bool = True
    """Whether to install the web page."""
    data_claim: str = ""
    """The PersistentVolumeClaim for the history and the decision log; empty: they live as long as the pod.

    Two schedulers cannot share the file of the history, so with a claim there is one replica.
    """
    decision_log: bool = False
    """Whether the scheduler records its decisions for the web page, which reads them from the claim."""
    service_monitor: bool = False
    """Whether to create a ServiceMonitor for the Prometheus operator."""
    pods: PodSettings = field(default_factory=PodSettings)

    @property
    def schedulers(self) -> tuple[str, ...]:
        """The values of ``schedulerName`` whose pods Pumice places."""
        return (OWN_SCHEDULER,) if self.beside_volcano else tuple(sorted(SCHEDULERS))


def labels(component: str = "") -> dict[str, str]:
    """The labels of installed objects, or of the objects of one component."""
    found = {"app.kubernetes.io/name": INSTALL_NAME, "app.kubernetes.io/part-of": INSTALL_NAME}
    return {**found, "app.kubernetes.io/component": component} if component else found
