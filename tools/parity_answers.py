"""Writes the answers in tests/kubesim/parity/exchanges anew, as a real kube-apiserver gives them now.

K8S_BIN=FOLDER python -m tools.parity_answers [FILE ...]     FOLDER holds kube-apiserver and etcd
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from benchmarks import kubernetes
from tests.support.exchanges import SHIPPED, Player, load

EXCHANGES = Path(__file__).parent.parent / "tests" / "kubesim" / "parity" / "exchanges"


class _Plain(yaml.SafeDumper):
    """YAML without anchors: every step is written in full."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def written(document: Any) -> str:
    """As the files are laid out: short things on one line, the rest in blocks."""
    return yaml.dump(document, Dumper=_Plain, sort_keys=False, width=118, default_flow_style=None, allow_unicode=True)


def main(names: list[str]) -> None:
    """Play all exchanges, and write the answers to their files."""
    paths = [Path(name) for name in names] or sorted(EXCHANGES.glob("*.yaml"))
    with kubernetes.running(fsync=False) as server:
        player = Player(server.url, server.token)
        player.ship(SHIPPED)
        for path in paths:
            document = yaml.safe_load(path.read_text())
            for script, entry in zip(load(path), document["scripts"], strict=True):
                player.begin(script.name)
                for step in entry["steps"]:
                    given = step.get("ours")
                    step.pop("ours", None)
                    step["answer"] = player.play(script, step)
                    if given is not None:
                        step["ours"] = given
            path.write_text(written(document))


if __name__ == "__main__":
    main(sys.argv[1:])
