"""The built-in kinds, one module each.

A kind consists of a schema in the notation of ``schema_dsl``, a strategy and the columns of its table. Custom kinds are
created from definitions (``crds`` is the kind of definitions, ``custom_resources`` turns one into resources).

Discovery lists groups in the order in which they first appear here.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.kinds import nodes, pods
from kubesim.kinds.access_reviews import reviews
from kubesim.kinds.apps import deployments, replica_sets
from kubesim.kinds.config_maps import config_maps, secrets
from kubesim.kinds.crds import custom_resource_definitions
from kubesim.kinds.cron_jobs import cron_jobs
from kubesim.kinds.daemon_sets import daemon_sets
from kubesim.kinds.endpoints import endpoint_slices, endpoints
from kubesim.kinds.events import events
from kubesim.kinds.jobs import jobs
from kubesim.kinds.leases import leases
from kubesim.kinds.namespaces import namespaces
from kubesim.kinds.network_policies import network_policies
from kubesim.kinds.persistent_volumes import persistent_volume_claims, persistent_volumes
from kubesim.kinds.pod_disruption_budgets import pod_disruption_budgets
from kubesim.kinds.priority_classes import priority_classes
from kubesim.kinds.replication_controllers import replication_controllers
from kubesim.kinds.resource_quotas import resource_quotas
from kubesim.kinds.service_accounts import service_accounts
from kubesim.kinds.services import services
from kubesim.kinds.stateful_sets import controller_revisions, stateful_sets
from kubesim.kinds.storage_classes import csi_drivers, csi_nodes, csi_storage_capacities, storage_classes
from kubesim.kinds.usage_metrics import usage_metrics
from kubesim.registry.registry import Resource


def resources() -> Iterator[Resource]:
    """Every built-in resource."""
    yield namespaces()
    yield nodes.resource()
    yield pods.resource()
    yield config_maps()
    yield secrets()
    yield service_accounts()
    yield services()
    yield endpoints()
    yield replication_controllers()
    yield events()
    yield resource_quotas()
    yield persistent_volumes()
    yield persistent_volume_claims()
    yield deployments()
    yield replica_sets()
    yield stateful_sets()
    yield daemon_sets()
    yield controller_revisions()
    yield jobs()
    yield cron_jobs()
    yield network_policies()
    yield pod_disruption_budgets()
    yield priority_classes()
    yield leases()
    yield endpoint_slices()
    yield storage_classes()
    yield csi_nodes()
    yield csi_drivers()
    yield csi_storage_capacities()
    yield custom_resource_definitions()
    yield from reviews()
    yield from usage_metrics()
