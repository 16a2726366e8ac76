import sys
from textwrap import dedent
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.config import yaml_document as config_yaml
from pumice.engine.config.enable_flags import Flag
from pumice.engine.config.scheduler_config import DEFAULT_CONFIG, ConfigError, SchedulerConfig, parse_config
from tests.support.processes import run_process

PLUGINS = ("binpack", "conformance", "drf", "gang", "nodeorder", "predicates", "priority")
ACTIONS = ("allocate", "backfill", "enqueue")

LOADERS = [yaml.SafeLoader] + ([yaml.CSafeLoader] if yaml.__with_libyaml__ else [])


@pytest.fixture(params=LOADERS, ids=lambda loader: loader.__name__)
def any_loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_yaml, "_LOADER", request.param)


def read(text: str) -> SchedulerConfig:
    return parse_config(dedent(text), source="s.conf", known_plugins=PLUGINS, known_actions=ACTIONS)


def names(config: SchedulerConfig) -> list[list[str]]:
    return [[plugin.name for plugin in tier] for tier in config.tiers]


def plugin(*lines: str) -> str:
    """A file whose only plugin begins on line 4, with the given lines after its name."""
    return "\n".join(["actions: allocate", "tiers:", "- plugins:", "  - name: drf", *(f"    {line}" for line in lines)])


# ---- files that are read -----------------------------------------------------------------------------


def test_the_default_is_the_hierarchy_with_fair_shares() -> None:
    plugins, actions = {*PLUGINS, "capacity", "overcommit"}, (*ACTIONS, "preempt", "reclaim")
    config = parse_config(DEFAULT_CONFIG, known_plugins=plugins, known_actions=actions)
    assert config.actions == ("enqueue", "allocate", "backfill", "reclaim", "preempt")
    fair = ["drf", "capacity", "predicates", "nodeorder", "overcommit"]  # who is next, and no further than allowed
    assert names(config) == [["priority", "gang", "conformance"], fair]
    assert [plugin.name for plugin in config.plugins if plugin.on(Flag.HIERARCHY)] == ["drf"]
    assert config.notes == ()


def test_default_config_with_unknown_plugin_is_rejected() -> None:
    actions = (*ACTIONS, "preempt", "reclaim")
    with pytest.raises(ConfigError, match='plugin "drf" is not part of this version'):
        parse_config(DEFAULT_CONFIG, known_plugins=("conformance", "gang", "priority"), known_actions=actions)


ANY_FILE = """\
    # What an operator's ConfigMap carries: comments, quotes, a document marker, arguments of every type.
    ---
    actions: "enqueue,allocate , backfill"
    tiers:
    - plugins:
      - name: priority
      - name: 'gang'
        enablePreemptable: false
        enableJobStarving: no
      - name: conformance
        arguments:
    - plugins:
      - name: drf
        EnabledClusterOrder: false
        enableNamespaceOrder: off
        enabledHierarchy: true
      - name: predicates
        arguments:
          predicate.CacheEnable: true
          predicate.resources: nvidia.com/gpu
      - name: binpack
        arguments:
          binpack.weight: 10
          binpack.cpu: "5"
          binpack.memory: 1.5
          binpack.resources: [nvidia.com/gpu, example.com/foo]
          zones: {rz1: 10:00-21:00, start: 10:30, day: 2024-01-31, octal: 010, mask: 0x1F, big: 1_000}
          unset:
    configurations:
    - name: enqueue
      arguments:
        overcommit-factor: 1.2
    - name: allocate
    metrics:
      type: prometheus
    """


@pytest.mark.usefixtures("any_loader")
def test_a_file_made_for_volcano_is_read_unchanged() -> None:
    config = read(ANY_FILE)
    assert config.source == "s.conf"
    assert config.actions == ("enqueue", "allocate", "backfill")
    assert names(config) == [["priority", "gang", "conformance"], ["drf", "predicates", "binpack"]]

    priority, gang, conformance, drf, predicates, binpack = config.plugins
    assert [plugin.line for plugin in config.plugins] == [6, 7, 10, 13, 17, 21]
    assert all(priority.on(flag) == (flag not in (Flag.HIERARCHY, Flag.JOB_STARVING)) for flag in Flag)
    assert not gang.on(Flag.PREEMPTABLE) and not gang.on(Flag.JOB_STARVING) and gang.on(Flag.JOB_ORDER)
    assert conformance.arguments == {}
    assert drf.on(Flag.HIERARCHY) and not drf.on(Flag.NAMESPACE_ORDER) and not drf.on(Flag.CLUSTER_ORDER)
    assert predicates.arguments == {"predicate.CacheEnable": True, "predicate.resources": "nvidia.com/gpu"}
    assert binpack.arguments == {
        "binpack.weight": 10,
        "binpack.cpu": "5",
        "binpack.memory": 1.5,
        "binpack.resources": ["nvidia.com/gpu", "example.com/foo"],
        # Times and dates stay text; 010 is 1 * 8, 0x1F is 1 * 16 + 15.
        "zones": {
            "rz1": "10:00-21:00",
            "start": "10:30",
            "day": "2024-01-31",
            "octal": 8,
            "mask": 31,
            "big": 1000,
        },
        "unset": None,
    }
    assert binpack.line_of("binpack.memory") == 25
    assert binpack.line_of("not.given") == binpack.line == 21

    assert config.arguments_of("enqueue") == {"overcommit-factor": 1.2}
    assert config.configurations["enqueue"].line_of("overcommit-factor") == 32
    assert config.arguments_of("allocate") == {}
    assert config.arguments_of("backfill") == {}
    assert config.notes == (
        "drf: EnabledClusterOrder has no effect here",
        "drf: enabledHierarchy is read as enableHierarchy",
        "metrics has no effect here",
    )


@pytest.mark.parametrize(
    ("text", "tiers"),
    [
        pytest.param("actions: allocate", [], id="no tiers"),
        pytest.param("actions: allocate\ntiers:", [], id="tiers without a value"),
        pytest.param("actions: allocate\ntiers:\n-\n- plugins:\n- plugins: []", [[], [], []], id="empty tiers"),
        pytest.param(
            '{"actions": "allocate", "tiers": [{"plugins": [{"name": "drf"}, {"name": "gang"}]}]}',
            [["drf", "gang"]],
            id="JSON",
        ),
        pytest.param(
            "actions: >\n  allocate,\n  backfill\ntiers: [{plugins: [{name: drf}]}]\n...\n",
            [["drf"]],
            id="folded text",
        ),
        pytest.param("\ufeffactions: allocate\r\ntiers:\r\n- plugins:\r\n  - name: drf\r\n", [["drf"]], id="Windows"),
    ],
)
@pytest.mark.usefixtures("any_loader")
def test_other_ways_to_write_it(text: str, tiers: list[list[str]]) -> None:
    config = read(text)
    assert config.actions[0] == "allocate"
    assert names(config) == tiers
    assert config.notes == ()


def test_an_action_may_run_twice() -> None:
    assert read("actions: allocate, backfill, allocate").actions == ("allocate", "backfill", "allocate")


def test_arguments_may_be_shared_by_an_alias() -> None:
    config = read("""\
        actions: allocate
        tiers:
        - plugins:
          - {name: drf, arguments: &shared {a: [1, 2]}}
          - {name: gang, arguments: *shared}
        """)
    assert [plugin.arguments for plugin in config.plugins] == [{"a": [1, 2]}] * 2


def test_aliases_share_one_value() -> None:
    # Written out anew at each alias, a hundred lines of such lists would have 2 ** 100 entries.
    config = read(plugin("arguments:", "  a: &a [x]", "  b: &b [*a, *a]", "  c: [*b, *b]"))
    arguments: Any = config.plugins[0].arguments
    assert arguments["c"] == [[["x"], ["x"]], [["x"], ["x"]]]
    assert arguments["c"][0] is arguments["c"][1] is arguments["b"]


def test_the_configuration_of_an_action_that_does_not_run_is_noted() -> None:
    config = read("actions: allocate\nconfigurations:\n- name: enqueue\n  arguments: {a: 1}")
    assert config.arguments_of("enqueue") == {"a": 1}
    assert config.notes == ("enqueue: its configuration has no effect, it is not among the actions",)


def test_the_default_queue_is_read() -> None:
    assert read("actions: allocate").default_queue == ""
    assert read("actions: allocate\ndefaultQueue: default").default_queue == "default"


# ---- files that are refused --------------------------------------------------------------------------


KNOWN_ACTIONS = "allocate, backfill, enqueue"
KNOWN_PLUGINS = "binpack, conformance, drf, gang, nodeorder, predicates, priority"

REFUSED = {
    # the file as a whole
    "nothing": ("", 1, f'actions is missing; name one or more of: "{KNOWN_ACTIONS}"'),
    "comments alone": ("# nothing\n", 1, "actions is missing"),
    "text": ("allocate", 1, 'the configuration must be a mapping (key: value), not "allocate"'),
    "list": ("\n- a\n", 2, "the configuration must be a mapping (key: value), not a list"),
    "unknown key": (
        "actions: allocate\ntier:\n",
        2,
        'unknown key "tier", did you mean "tiers"?; the keys are',
    ),
    "default queue empty": ("actions: allocate\ndefaultQueue:\n", 2, "defaultQueue is empty: name a queue, or remove"),
    "default queue a list": ("actions: allocate\ndefaultQueue: [a]\n", 2, "defaultQueue must be text, not a list"),
    "ConfigMap": (
        "apiVersion: v1\nkind: ConfigMap\n",
        1,
        'unknown key "apiVersion"; the keys are actions, tiers',
    ),
    "key twice": (
        "actions: allocate\ntiers:\nactions: backfill\n",
        3,
        'already has "actions" on line 1: keep one',
    ),
    "key no text": (
        "actions: allocate\n? [a]\n: b\n",
        2,
        "a key of the configuration must be text, not a list",
    ),
    # actions
    "empty actions": ('tiers:\nactions: " "', 2, f'actions is empty; name one or more of: "{KNOWN_ACTIONS}"'),
    "null actions": ("tiers:\nactions:\n", 2, "actions is empty"),
    "actions listed": ("actions:\n- allocate\n", 2, "actions must be one text, not a list"),
    "actions mapped": ("actions:\n  allocate: x\n", 2, "actions must be text, not a mapping"),
    "actions a number": ("actions: 7", 1, "actions must be text, not 7"),
    "comma too many": ('actions: "enqueue, , allocate"', 1, 'a comma too many: "enqueue, , allocate"'),
    "comma at the end": ("\nactions: allocate,", 2, "a comma too many"),
    "misspelt action": (
        'actions: "enqueue, alocate"',
        1,
        f'unknown action "alocate", did you mean "allocate"?; known actions: {KNOWN_ACTIONS}',
    ),
    "strange action": ("actions: dance", 1, f'unknown action "dance"; known actions: {KNOWN_ACTIONS}'),
    "later action": (
        '\n\nactions: "enqueue, allocate, reclaim"',
        3,
        f'action "reclaim" is not part of this version; known actions: {KNOWN_ACTIONS}',
    ),
    # tiers
    "tiers mapped": (
        "actions: allocate\ntiers:\n  plugins: []",
        3,
        "tiers must be a list (- ...), not a mapping",
    ),
    "tier a name": (
        "actions: allocate\ntiers:\n- drf",
        3,
        'a tier must be a mapping (key: value), not "drf"',
    ),
    "tier without plugins": (
        "actions: allocate\ntiers:\n- name: drf",
        3,
        'unknown key "name": a tier is `- plugins:` with a list of plugins below it',
    ),
    "plugins mapped": ("actions: allocate\ntiers:\n- plugins: {name: drf}", 3, "plugins must be a list"),
    "bare plugin": (
        "actions: allocate\ntiers:\n- plugins:\n  - drf",
        4,
        "a plugin needs its key: write `- name: drf`",
    ),
    "plugin listed": ("actions: allocate\ntiers:\n- plugins:\n  - [drf]", 4, "the plugin must be a mapping"),
    "plugin null": (
        "actions: allocate\ntiers:\n- plugins:\n  -\n",
        4,
        "the plugin has no name: write `- name: ...`",
    ),
    "plugin nameless": (
        "actions: allocate\ntiers:\n- plugins:\n  - enableJobOrder: true",
        4,
        "the plugin has no name",
    ),
    "name no text": ("actions: allocate\ntiers:\n- plugins:\n  - name:", 4, "name must be text, not empty"),
    "misspelt plugin": (
        "actions: allocate\ntiers:\n- plugins:\n  - name: gangs",
        4,
        f'unknown plugin "gangs", did you mean "gang"?; known plugins: {KNOWN_PLUGINS}',
    ),
    "plugin in capitals": (
        "actions: allocate\ntiers:\n- plugins:\n  - enableJobOrder: true\n    name: DRF",
        5,
        'unknown plugin "DRF", did you mean "drf"?',
    ),
    "strange plugin": (
        "actions: allocate\ntiers:\n- plugins:\n  - name: xgpu",
        4,
        'unknown plugin "xgpu"; known',
    ),
    "plugin twice": (
        "actions: allocate\ntiers:\n- plugins:\n  - name: drf\n  - name: gang\n- plugins:\n  - name: drf",
        7,
        'plugin "drf" is already on line 4: keep one',
    ),
    # flags and arguments
    "misspelt flag": (
        plugin("enableJobReady: true", "enableJobOrdr: true"),
        6,
        'unknown flag "enableJobOrdr", did you mean "enableJobOrder"?',
    ),
    "strange flag": (
        plugin("enableZZ: true"),
        5,
        'unknown flag "enableZZ"; the flags are enableJobOrder, enable',
    ),
    "misspelt key": (plugin("argument: {}"), 5, 'unknown key "argument", did you mean "arguments"?'),
    "argument not indented": (
        plugin("arguments:", "drf.rule: paper"),
        6,
        'unknown key "drf.rule"; what is meant for the plugin itself goes under its arguments',
    ),
    "flag a number": (plugin("enableJobOrder: 1"), 5, "enableJobOrder must be true or false, not 1"),
    "flag text": (plugin("enableJobOrder: maybe"), 5, 'enableJobOrder must be true or false, not "maybe"'),
    "flag quoted": (
        plugin('enableJobOrder: "true"'),
        5,
        'enableJobOrder must be true or false, not "true": leave the quotes out',
    ),
    "flag null": (plugin("enableJobOrder:"), 5, "enableJobOrder must be true or false, not empty"),
    "flag listed": (
        plugin("enableJobOrder:", "- true"),
        6,
        "enableJobOrder must be true or false, not a list",
    ),
    "idle flag no boolean": (plugin("enabledVictim: 3"), 5, "enabledVictim must be true or false, not 3"),
    "flag tagged": (plugin("enableJobOrder: !!bool x"), 5, "enableJobOrder must be true or false, not x"),
    "flag twice": (
        plugin("enableVictim: true", "enableVictim: true"),
        6,
        'already has "enableVictim" on line 5',
    ),
    "flag spelt twice": (
        plugin("enableJobOrder: true", "enabledJobOrder: true"),
        6,
        "enableJobOrder and enabledJobOrder are the same flag: keep one",
    ),
    "arguments listed": (
        plugin("arguments:", "- a: 1"),
        6,
        "arguments must be a mapping (key: value), not a list",
    ),
    "argument twice": (plugin("arguments:", "  a: 1", "  a: 2"), 7, 'arguments already has "a" on line 6'),
    "argument twice below": (
        plugin("arguments:", "  a: {b: 1,", "      b: 2}"),
        7,
        'already has "b" on line 6',
    ),
    "merge key": (
        plugin("arguments:", "  <<: {a: 1}"),
        6,
        '"<<" is not read in arguments: write the keys out',
    ),
    "custom tag": (plugin("arguments:", "  a: !vault x"), 6, "the tag !vault means nothing here"),
    "alias of itself": (plugin("arguments:", "  a: &a [*a]"), 6, "nested more than 50 levels deep"),
    # configurations
    "configurations mapped": ("actions: allocate\nconfigurations: {}", 2, "configurations must be a list"),
    "configured twice": (
        "actions: allocate\nconfigurations:\n- name: allocate\n- name: allocate",
        4,
        'action "allocate" is already configured on line 3: keep one',
    ),
    "unknown action configured": (
        "actions: allocate\nconfigurations:\n- name: init-params",
        3,
        f'unknown action "init-params"; known actions: {KNOWN_ACTIONS}',
    ),
    "later action configured": (
        "actions: allocate\nconfigurations:\n- arguments: {}\n  name: preempt",
        4,
        'action "preempt" is not part of this version',
    ),
    "flag of an action": (
        "actions: allocate\nconfigurations:\n- name: allocate\n  enableJobOrder: true",
        4,
        'unknown key "enableJobOrder": the configuration of an action has name and arguments',
    ),
    # YAML
    "open quote": ('tiers:\nactions: "allocate\n', 3, "not valid YAML: found unexpected end of stream"),
    "indentation": ("actions: allocate\n  tiers: []", 2, "not valid YAML: mapping values are not allowed"),
    "tab": ("actions: allocate\ntiers:\n\t- plugins: []", 3, "; indent with spaces, not tabs"),
    "two documents": (
        "actions: allocate\n---\nactions: allocate",
        2,
        "not valid YAML: but found another document",
    ),
    "unknown alias": ("actions: allocate\ntiers: *x", 2, "not valid YAML: found undefined alias"),
    "control character": (
        "actions: allocate\n# \x00",
        2,
        "not valid YAML: the character U+0000 is not allowed",
    ),
    "half a character": ("# ä\nactions: \ud800", 2, "not valid YAML: the character U+D800 is not allowed"),
    "very deep": ("actions: allocate\ntiers: " + "[" * 5_000, 2, "nested more than 50 levels deep"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.usefixtures("any_loader")
def test_refused(case: str) -> None:
    text, line, message = REFUSED[case]
    with pytest.raises(ConfigError) as refused:
        read(text)
    assert message in refused.value.message
    assert ("tabs" in refused.value.message) == (case == "tab")
    assert refused.value.line == line
    assert str(refused.value) == f"s.conf:{line}: {refused.value.message}"


@pytest.mark.parametrize(
    "name",
    [
        *("capacity", "cdp", "deviceshare", "extender", "network-topology-aware", "nodegroup", "numa-aware"),
        *("overcommit", "pdb", "proportion", "rescheduling", "resource-strategy-fit", "resourcequota", "sla"),
        *("task-topology", "tdm", "usage"),
    ],
)
def test_a_plugin_of_volcano_that_is_not_here_is_no_misspelling(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(f"actions: allocate\ntiers:\n- plugins:\n  - name: {name}")
    expected = f's.conf:4: plugin "{name}" is not part of this version; known plugins: {KNOWN_PLUGINS}'
    assert str(refused.value) == expected


@pytest.mark.parametrize("name", ["preempt", "reclaim", "shuffle", "gangpreempt", "gangreclaim", "elect", "reserve"])
def test_an_action_of_volcano_that_is_not_here_is_no_misspelling(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(f"actions: {name}")
    expected = f's.conf:1: action "{name}" is not part of this version; known actions: {KNOWN_ACTIONS}'
    assert str(refused.value) == expected


def test_a_plugin_is_known_by_whoever_registers_it() -> None:
    text = "actions: allocate\ntiers: [{plugins: [{name: proportion}, {name: my-policy}]}]"
    config = parse_config(text, known_plugins={"proportion", "my-policy"}, known_actions={"allocate"})
    assert names(config) == [["proportion", "my-policy"]]


# ---- anything else -----------------------------------------------------------------------------------

WORDS = """
    actions allocate tiers plugins name drf arguments configurations enableJobOrder true 1:30 0x .nan
    &a *a !!int !!bool
    """
PIECES = st.sampled_from([*"\n\n\n  -:,[]{}&*!|>'\"#%~?<\t", "  ", "- ", ": ", *WORDS.split()])


@given(
    st.lists(PIECES, max_size=30).map("".join)
    | st.lists(PIECES, max_size=20).map(lambda pieces: plugin("arguments:", "  a: " + "".join(pieces)))
    | st.text(max_size=30).map(lambda text: f"actions: allocate\ntiers: {text}")
)
def test_any_text_is_read_or_refused_on_one_of_its_lines(text: str) -> None:
    try:
        actions, line = parse_config(text, known_plugins=PLUGINS, known_actions=ACTIONS).actions, 1
    except ConfigError as refused:
        actions, line = (), refused.line
    assert set(actions) <= set(ACTIONS)
    # YAML ends lines at more characters than "\n", and the end of the text may count as one more line.
    assert 1 <= line <= len(text.splitlines()) + 1


@pytest.mark.process
def test_reading_a_configuration_does_not_load_numpy() -> None:
    script = "import sys, pumice.engine.config.scheduler_config; sys.exit('numpy' in sys.modules)"
    assert run_process([sys.executable, "-c", script], check=False).returncode == 0
