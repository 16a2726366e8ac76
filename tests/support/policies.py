"""Engines with queues that have bounds: capacity or proportion order them, or drf does and capacity limits."""

from __future__ import annotations

from collections.abc import Mapping

from kubebase.resource_vector import Registry
from pumice.engine.actions import ACTIONS
from pumice.engine.config.scheduler_config import parse_config
from pumice.engine.engine import Engine
from pumice.engine.plugins.builtin import BUILT_IN

PLUGINS = {
    "capacity": "- name: capacity",
    "capacity and namespaces": "- name: drf\n  - name: capacity",
    "proportion": "- name: proportion",
    "drf": "- name: drf\n    enableHierarchy: true",
    "drf and capacity": "- name: drf\n    enableHierarchy: true\n  - name: capacity",
    "drf and overcommit": "- name: drf\n    enableHierarchy: true\n  - name: overcommit",
}


def policy_engine(
    policy: str,
    registry: Registry | None = None,
    *,
    actions: str = "enqueue, allocate, backfill",
    arguments: Mapping[str, object] | None = None,
) -> Engine:
    """An engine in which this policy decides; arguments are for its last plugin."""
    text = f'actions: "{actions}"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n  {PLUGINS[policy]}\n'
    if arguments:
        text += f"    arguments: {dict(arguments)}\n"
    config = parse_config(text, known_plugins=BUILT_IN, known_actions=ACTIONS)
    return Engine(config, BUILT_IN, registry)
