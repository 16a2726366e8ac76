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
from kubesim.kinds.events import events
from kubesim.kinds.jobs import jobs
from kubesim.kinds.leases import leases
from kubesim.kinds.namespaces import namespaces
from kubesim.kinds.network_policies import network_policies
from kubesim.kinds.pod_disruption_budgets import pod_disruption_budgets
from kubesim.kinds.priority_classes import priority_classes
from kubesim.kinds.resource_quotas import resource_quotas
from kubesim.kinds.service_accounts import service_accounts
from kubesim.registry.registry import Resource


def resources() -> Iterator[Resource]:
    """Every built-in resource."""
    yield namespaces()
    yield nodes.resource()
    yield pods.resource()
    yield config_maps()
    yield secrets()
    yield service_accounts()
    yield events()
    yield resource_quotas()
    yield deployments()
    yield replica_sets()
    yield jobs()
    yield network_policies()
    yield pod_disruption_budgets()
    yield priority_classes()
    yield leases()
    yield custom_resource_definitions()
    yield from reviews()
