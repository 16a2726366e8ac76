"""The clusters that kubectl is tried on."""

from tests.support.kubectl_fixtures import clusters, kubectl, real

__all__ = ["clusters", "kubectl", "real"]
