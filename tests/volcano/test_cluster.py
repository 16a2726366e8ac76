from __future__ import annotations

import yaml

from pumice.config.load import read_config
from tests.volcano.cluster import pumice_config

VOLCANO = """
actions: "enqueue, allocate, backfill, reclaim, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
- plugins:
  - name: proportion
  - name: no-such-plugin
"""


def plugins(text):
    return {plugin["name"]: plugin for tier in yaml.safe_load(text)["tiers"] for plugin in tier["plugins"]}


def test_configuration_of_volcano_is_made_one_of_pumice():
    text = pumice_config(VOLCANO)
    assert list(plugins(text)) == ["priority", "gang", "proportion"]
    assert plugins(text)["gang"] == {"name": "gang", "enablePreemptable": False, "enableJobStarving": True}
    assert yaml.safe_load(text)["defaultQueue"] == "default"
    assert [plugin.name for plugin in read_config(text, "test").plugins] == ["priority", "gang", "proportion"]


def test_settings_of_a_case_come_first():
    given = [{"name": "reclaim", "arguments": {"reclaim.patience": 5}}, {"name": "preempt"}]
    text = pumice_config(yaml.safe_dump(yaml.safe_load(VOLCANO) | {"configurations": given}))
    assert yaml.safe_load(text)["configurations"] == given
