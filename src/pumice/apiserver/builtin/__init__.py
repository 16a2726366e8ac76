"""The kinds that are always served, each beside what makes it different from the others.

A kind is a schema in the terse form of ``notation``, a strategy and the columns of its table. Custom kinds come from
definitions (``crds`` is the kind of those, ``definitions`` turns one into resources).

Groups are discovered in the order in which they first come here.
"""

from __future__ import annotations

from collections.abc import Iterator

from pumice.apiserver.builtin import nodes, pods
from pumice.apiserver.builtin.accounts import service_accounts
from pumice.apiserver.builtin.budgets import pod_disruption_budgets
from pumice.apiserver.builtin.configs import config_maps, secrets
from pumice.apiserver.builtin.crds import custom_resource_definitions
from pumice.apiserver.builtin.events import events
from pumice.apiserver.builtin.jobs import jobs
from pumice.apiserver.builtin.leases import leases
from pumice.apiserver.builtin.namespaces import namespaces
from pumice.apiserver.builtin.priorities import priority_classes
from pumice.apiserver.builtin.quotas import resource_quotas
from pumice.apiserver.builtin.reviews import reviews
from pumice.apiserver.builtin.workloads import deployments, replica_sets
from pumice.apiserver.catalogue import Resource


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
    yield pod_disruption_budgets()
    yield priority_classes()
    yield leases()
    yield custom_resource_definitions()
    yield from reviews()
