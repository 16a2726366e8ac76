"""The same requests, the same answers: what a real kube-apiserver said is what we say.

The scripts in ``exchanges/`` carry the answers of a real server. They are played against ours, without the rules of
admission, which a real one would have from a webhook, and by ``make test-kube`` against the real one too, so that the
answers written down stay true.
``python -m tools.parity_answers`` writes them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import kubernetes
from tests.support.api_servers import plain_server
from tests.support.exchanges import SHIPPED, Player, Script, differences, expected_of_us, load

SCRIPTS = [script for path in sorted(Path(__file__).parent.glob("exchanges/*.yaml")) for script in load(path)]
_Expected = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]
names = pytest.mark.parametrize("script", SCRIPTS, ids=[script.name for script in SCRIPTS])


@pytest.fixture(scope="module")
def ours() -> Iterator[Player]:
    with plain_server("known-to-nobody-else") as endpoint:
        yield Player(endpoint.url, endpoint.token)


@pytest.fixture(scope="module")
def real() -> Iterator[Player]:
    with kubernetes.running(fsync=False) as endpoint:
        player = Player(endpoint.url, endpoint.token)
        player.ship(SHIPPED)
        yield player


@names
def test_our_answers(script: Script, ours: Player) -> None:
    _compare(script, ours, expected_of_us)


@pytest.mark.kube
@names
def test_real_answers(script: Script, real: Player) -> None:
    _compare(script, real, lambda step, got: step["answer"])


def _compare(script: Script, player: Player, expected: _Expected) -> None:
    """Play to the end, and fail with every difference and the request that shows it."""
    player.begin(script.name)
    found = []
    for number, step in enumerate(script.steps, 1):
        got = player.play(script, step)
        if expected is expected_of_us and "ours" in step and not list(differences(step["answer"], got)):
            found.append(f"step {number}: {step['ask']}\n    answered as there: its `ours` can go")
        lines = list(differences(expected(step, got), got))
        if lines:
            found.append("\n    ".join([f"step {number}: {step['ask']}", *lines]))
    if found:
        pytest.fail("\n".join([script.about, *found]), pytrace=False)
