"""Built-in plugins, one module each. Those of third parties come from outside, see docs/extending.md."""

from __future__ import annotations

from collections.abc import Mapping

from pumice.scheduling.plugins.binpack import BinpackPlugin
from pumice.scheduling.plugins.capacity import CapacityPlugin
from pumice.scheduling.plugins.conformance import ConformancePlugin
from pumice.scheduling.plugins.drf import DrfPlugin
from pumice.scheduling.plugins.gang import GangPlugin
from pumice.scheduling.plugins.nodegroup import NodeGroupPlugin
from pumice.scheduling.plugins.nodeorder import NodeOrderPlugin
from pumice.scheduling.plugins.overcommit import OvercommitPlugin
from pumice.scheduling.plugins.pdb import PdbPlugin
from pumice.scheduling.plugins.predicates import PredicatesPlugin
from pumice.scheduling.plugins.priority import PriorityPlugin
from pumice.scheduling.plugins.proportion import ProportionPlugin
from pumice.scheduling.plugins.sla import SlaPlugin
from pumice.scheduling.plugins.users import UsersPlugin
from pumice.scheduling.policy import PluginFactory

BUILT_IN: Mapping[str, PluginFactory] = {
    plugin.name: plugin
    for plugin in (
        BinpackPlugin,
        CapacityPlugin,
        ConformancePlugin,
        DrfPlugin,
        GangPlugin,
        NodeGroupPlugin,
        NodeOrderPlugin,
        OvercommitPlugin,
        PdbPlugin,
        PredicatesPlugin,
        PriorityPlugin,
        ProportionPlugin,
        SlaPlugin,
        UsersPlugin,
    )
}
