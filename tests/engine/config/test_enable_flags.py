import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.config.enable_flags import EFFECTIVE, Flag, flag_spelled
from pumice.engine.config.scheduler_config import parse_config

# As the files write them, from the first versions to the latest.
KEYS = """
    enableJobOrder enableHierarchy enableJobReady enableJobPipelined enableTaskOrder enablePreemptable
    enableReclaimable enablePreemptive enableQueueOrder EnabledClusterOrder enabledClusterOrder
    enablePredicate enableBestNode enableNodeOrder enableTargetJob enableReservedNodes enableJobEnqueued
    enabledVictim enableJobStarving enabledOverused enabledAllocatable enabledHyperNodeOrder
    enabledSubJobReady enabledSubJobPipelined enabledSubJobOrder enabledHyperNodeGradient
    enableNamespaceOrder
    """


def test_every_key_is_a_flag_and_every_flag_has_its_key() -> None:
    flags = [flag_spelled(key) for key in KEYS.split()]
    assert None not in flags
    assert set(flags) == set(Flag)
    assert len(Flag) == len(flags) - 1  # the order of clusters has two spellings


@pytest.mark.parametrize("key", ["JobOrder", "enablejoborder", "enableddJobOrder", "enable", "enabled", ""])
def test_flag_spelled_returns_none_for_unknown_key(key: str) -> None:
    assert flag_spelled(key) is None


def respelt(flag: Flag, prefix: str) -> str:
    return prefix + flag.value.removeprefix("enabled").removeprefix("enable")


@given(
    said=st.dictionaries(st.sampled_from(Flag), st.booleans()),
    prefix=st.sampled_from([None, "enable", "enabled", "Enable", "Enabled"]),
)
def test_any_flags_come_back_as_they_were_said(said: dict[Flag, bool], prefix: str | None) -> None:
    keys = {flag: respelt(flag, prefix) if prefix else flag.value for flag in said}
    options = {keys[flag]: value for flag, value in said.items()}
    text = yaml.safe_dump(
        {"actions": "allocate", "tiers": [{"plugins": [{"name": "drf", **options}, {"name": "gang"}]}]},
        sort_keys=False,
    )
    config = parse_config(text, known_plugins={"drf", "gang"}, known_actions={"allocate"})
    drf, gang = config.plugins
    for flag in Flag:
        default = flag not in (Flag.HIERARCHY, Flag.JOB_STARVING)
        assert drf.on(flag) == said.get(flag, default)
        assert gang.on(flag) == default
    idle = {f"drf: {keys[flag]} has no effect here" for flag in said if flag not in EFFECTIVE}
    moved = {
        f"drf: {keys[flag]} is read as {flag.value}" for flag in said if flag in EFFECTIVE and keys[flag] != flag.value
    }
    assert sorted(config.notes) == sorted(idle | moved)
