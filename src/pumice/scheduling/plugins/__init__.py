"""Built-in plugins, one module each, and where third parties' are found (entry point ``pumice.plugins``)."""

from __future__ import annotations

from collections.abc import Mapping

from pumice.scheduling.plugins.binpack import BinpackPlugin
from pumice.scheduling.plugins.conformance import ConformancePlugin
from pumice.scheduling.plugins.drf import DrfPlugin
from pumice.scheduling.plugins.gang import GangPlugin
from pumice.scheduling.plugins.nodeorder import NodeOrderPlugin
from pumice.scheduling.plugins.predicates import PredicatesPlugin
from pumice.scheduling.plugins.priority import PriorityPlugin
from pumice.scheduling.policy import PluginFactory

BUILT_IN: Mapping[str, PluginFactory] = {
    plugin.name: plugin
    for plugin in (
        BinpackPlugin,
        ConformancePlugin,
        DrfPlugin,
        GangPlugin,
        NodeOrderPlugin,
        PredicatesPlugin,
        PriorityPlugin,
    )
}
