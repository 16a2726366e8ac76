"""Scripts of kubectl commands for two clusters at once, and what of the outputs is compared.

A script (one entry of a YAML file in ``tests/kubesim/parity/kubectl``) runs in a namespace of its own, named like the
script. Every step is one command, typed on both; a text alone is the command:

    kubectl: the command; ``${ns}`` stands for the script's namespace
    given:   which of the ``objects`` of the file is its input; ``with`` sets or (null) removes fields of it
    until:   type it again for up to half a minute until the output has this (a regular expression)
    without: what lines look like that tell of the way there, and are left out (a regular expression)
    sorted:  the order of the lines says nothing
    ours:    where the outputs differ on purpose: ``why``, and ``there`` and ``here`` with the lines that only one of
             them prints, or ``cut`` with what is not compared (a regular expression); lines may be cut whole

What differs from run to run is replaced by a word in angle brackets before comparing: uids, times, ages, revisions,
addresses, and the parts of names that somebody has made up. Columns are as wide as they need to be.
"""

from __future__ import annotations

import copy
import json
import re
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from tests.support import exchanges
from tests.support.exchanges import Script, put
from tests.support.kubectl import Namespace, run

PATIENCE = 60.0
_MADE = "[bcdfghjklmnpqrstvwxz2456789]"
_CHANGING = [
    (re.compile(r"\S*/(LIVE|MERGED)-\d+"), r"\1"),  # first: the number may look like the hash of a name
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uid>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}"), "<time>"),
    (re.compile(r"^[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", re.MULTILINE), "<log> "),
    (re.compile(r"^<log> reflector.go.*\n", re.MULTILINE), ""),  # a client that has to hurry tells of itself
    (re.compile(r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "<time>"),
    (re.compile(r"(?<![\w.])(\d+m)?\d+s\b(?! )|<invalid>|(?<![\w.])(\d+m)?\d+s(?= {2}| ago| \()"), "<age>"),
    (re.compile(r"(?<=  )\d\d?m(?=  |$)", re.MULTILINE), "<age>"),  # whole minutes, in a column
    (re.compile(r'(resourceVersion"?|Resource Version): +"?\d+"?'), r"\1: <revision>"),
    (re.compile(r"pumice://[0-9a-f]{64}"), "<container>"),
    (re.compile(r"\b\d+\.\d+\.\d+\.\d+(:\d+|/\d+)?\b"), "<address>"),
    (re.compile(rf"(pod-template-hash\"?[=:]\s*\"?){_MADE}+"), r"\1<hash>"),
    (re.compile(rf"-{_MADE}{{8,10}}\b"), "-<hash>"),
    (re.compile(rf"-{_MADE}{{5}}\b"), "-<made>"),
    (re.compile(r"(?<=\S) {2,}"), "  "),
]


def load(path: Path) -> list[Script]:
    """The scripts of a file."""
    return [replace(script, steps=list(map(_step, script.steps))) for script in exchanges.load(path)]


def _step(written: str | dict[str, Any]) -> dict[str, Any]:
    return {"kubectl": written} if isinstance(written, str) else written


@dataclass
class Typist:
    """Types what a script says, on one cluster."""

    kubectl: Namespace

    @classmethod
    def begin(cls, kubeconfig: Path, script: Script) -> Typist:
        """In a new namespace."""
        status, said = run(kubeconfig, "create", "namespace", script.name)
        assert status == 0, said
        return cls(Namespace(kubeconfig, script.name))

    def type(self, script: Script, step: dict[str, Any]) -> list[str]:
        """What a step prints, made comparable; how it ended is the last line."""
        words = shlex.split(step["kubectl"].replace("${ns}", script.name))
        given = copy.deepcopy(script.objects[step["given"]]) if "given" in step else None
        for path, value in step.get("with", {}).items():
            put(given, path, value)
        if given is not None:
            given = json.loads(json.dumps(given).replace("${ns}", script.name))
        end = time.monotonic() + PATIENCE
        while True:
            status, said = self.kubectl.tried(*words, given=given)
            if "until" not in step or re.search(step["until"], said):
                break
            assert time.monotonic() < end, f"kubectl {step['kubectl']} does not come to {step['until']}:\n{said}"
            time.sleep(0.1)
        lines = [line for line in steady(said).splitlines() if not re.search(step.get("without", "$^"), line)]
        return [*(sorted(lines) if step.get("sorted") else lines), f"exit status {status}"]


def steady(text: str) -> str:
    """An output without what differs between runs."""
    for pattern, word in _CHANGING:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def difference(there: list[str], here: list[str]) -> tuple[list[str], list[str]]:
    """The lines that only one of them prints."""
    lost, extra = [], []
    for kind, first, last, begin, end in SequenceMatcher(None, there, here, autojunk=False).get_opcodes():
        if kind != "equal":
            lost += there[first:last]
            extra += here[begin:end]
    return lost, extra


def play(script: Script, there: Path, here: Path) -> list[str]:
    """Type a script on both; what differs that should not, and what should differ and does not."""
    typists = [Typist.begin(kubeconfig, script) for kubeconfig in (there, here)]
    found = []
    with ThreadPoolExecutor(2) as both:
        for number, step in enumerate(script.steps, 1):
            printed = list(both.map(lambda typist, step=step: typist.type(script, step), typists))
            if wrong := judge(step, *printed):
                found.append(
                    "\n".join([f"step {number}: kubectl {step['kubectl']}", *(f"    {line}" for line in wrong)])
                )
    return found


def judge(step: dict[str, Any], there: list[str], here: list[str]) -> list[str]:
    """What is wrong with two outputs of a step."""
    lost, extra = difference(there, here)
    ours = step.get("ours")
    if ours is None:
        return [*(f"- {line}" for line in lost), *(f"+ {line}" for line in extra)]
    if not lost and not extra:
        return ["printed as there: its `ours` can go"]
    if "cut" in ours:
        cut = [[left for line in lines if (left := re.sub(ours["cut"], "", line))] for lines in (there, here)]
        lost, extra = difference(*cut)
    lost, extra = difference([*ours.get("there", ()), "", *ours.get("here", ())], [*lost, "", *extra])
    return [*(f"said to differ, and does not: {line}" for line in lost), *(f"differs: {line}" for line in extra)]
