"""Built-in plugins, one module each. Third-party plugins are loaded from other packages, see docs/extending.md."""

from __future__ import annotations

from collections.abc import Mapping

from pumice.engine.plugins.builtin.binpack import BinpackPlugin
from pumice.engine.plugins.builtin.capacity import CapacityPlugin
from pumice.engine.plugins.builtin.conformance import ConformancePlugin
from pumice.engine.plugins.builtin.device_share import DeviceSharePlugin
from pumice.engine.plugins.builtin.drf import DrfPlugin
from pumice.engine.plugins.builtin.gang import GangPlugin
from pumice.engine.plugins.builtin.network_topology import NetworkTopologyPlugin
from pumice.engine.plugins.builtin.nodegroup import NodeGroupPlugin
from pumice.engine.plugins.builtin.nodeorder import NodeOrderPlugin
from pumice.engine.plugins.builtin.overcommit import OvercommitPlugin
from pumice.engine.plugins.builtin.pdb import PdbPlugin
from pumice.engine.plugins.builtin.predicates import PredicatesPlugin
from pumice.engine.plugins.builtin.priority import PriorityPlugin
from pumice.engine.plugins.builtin.proportion import ProportionPlugin
from pumice.engine.plugins.builtin.resource_strategy_fit import ResourceStrategyFitPlugin
from pumice.engine.plugins.builtin.sla import SlaPlugin
from pumice.engine.plugins.builtin.task_topology import TaskTopologyPlugin
from pumice.engine.plugins.builtin.user_limits import UsersPlugin
from pumice.engine.plugins.plugin_chain import PluginFactory

BUILT_IN: Mapping[str, PluginFactory] = {
    plugin.name: plugin
    for plugin in (
        BinpackPlugin,
        CapacityPlugin,
        ConformancePlugin,
        DeviceSharePlugin,
        DrfPlugin,
        GangPlugin,
        NetworkTopologyPlugin,
        NodeGroupPlugin,
        NodeOrderPlugin,
        OvercommitPlugin,
        PdbPlugin,
        PredicatesPlugin,
        PriorityPlugin,
        ProportionPlugin,
        ResourceStrategyFitPlugin,
        SlaPlugin,
        TaskTopologyPlugin,
        UsersPlugin,
    )
}
