"""Counts what becomes of the manifests that Volcano ships: its examples, and the blocks of YAML in its docs.

python -m tests.volcano.manifests [--list]

Each manifest is applied with kubectl on one ``pumice up --default-scheduler``, in a namespace of its own unless it
names one. The table says how many were accepted, accepted with a warning, or refused, and why; ``--list`` adds a line
for each manifest that was not plainly accepted. Then the pods are counted by phase. Nothing is compared with an
expectation: the judgement of who is right, Volcano's page or Pumice, needs a person.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.support.processes import run_process, started_process
from tools.kubernetes_binaries import go
from tools.volcano_suites import VOLCANO

FENCED = re.compile(r"^([ \t]*)```ya?ml[^\n]*\n(.*?)^\s*```", re.MULTILINE | re.DOTALL)
NODES = ("--nodes", "20", "--node-capacity", "cpu=64,memory=256Gi,nvidia.com/gpu=8")
SETTLE_SECONDS = 60.0
BROKEN, NO_OBJECT = "elided or broken YAML", "no Kubernetes object"
ACCEPTED, WARNED = "accepted", "accepted with a warning"
REASONS = (
    ("kind not served", re.compile(r"no matches for kind|resource mapping not found")),
    ("refused by the schema", re.compile(r"strict decoding|ValidationError|unknown field|is invalid|cannot unmarshal")),
    ("refused by admission", re.compile(r"denied the request|admission webhook|Forbidden|BadRequest|Unauthorized")),
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest and where Volcano has it."""

    source: str
    text: str


def example_manifests(module: Path) -> Iterator[Manifest]:
    """The files of Volcano's examples."""
    for path in sorted((module / "example").rglob("*.y*ml")):
        yield Manifest(str(path.relative_to(module)), path.read_text())


def page_manifests(module: Path) -> Iterator[Manifest]:
    """The blocks of YAML in Volcano's docs that look like objects of Kubernetes."""
    for path in sorted((module / "docs").rglob("*.md")):
        for number, (indent, block) in enumerate(FENCED.findall(path.read_text()), 1):
            text = "\n".join(line.removeprefix(indent) for line in block.splitlines())
            if re.search(r"^apiVersion:", text, re.MULTILINE) and re.search(r"^kind:", text, re.MULTILINE):
                yield Manifest(f"{path.relative_to(module)} block {number}", text)


def classify(status: int, said: str) -> str:
    """The class of a manifest, by the exit status of kubectl and what it printed to standard error."""
    if status == 0:
        return WARNED if "Warning:" in said else ACCEPTED
    return next((reason for reason, pattern in REASONS if pattern.search(said)), "refused otherwise")


def readable(manifest: Manifest) -> str:
    """Why a manifest cannot be sent at all; empty if it can."""
    try:
        documents = [document for document in yaml.safe_load_all(manifest.text) if document is not None]
    except yaml.YAMLError:
        return BROKEN
    if not all(isinstance(document, dict) for document in documents):
        return BROKEN
    return "" if any("kind" in document for document in documents) else NO_OBJECT


def named_namespaces(manifest: Manifest) -> set[str]:
    """The namespaces that the objects of a manifest name."""
    documents = [document for document in yaml.safe_load_all(manifest.text) if document is not None]
    named = {(document.get("metadata") or {}).get("namespace") for document in documents}
    return {name for name in named if isinstance(name, str)}


def try_manifest(manifest: Manifest, number: int, kubeconfig: Path) -> tuple[str, str]:
    """Apply a manifest; returns its class and what kubectl said."""
    if reason := readable(manifest):
        return reason, ""
    options = ["kubectl", "--kubeconfig", str(kubeconfig)]
    own = f"manifest-{number}"
    named = named_namespaces(manifest)
    for namespace in (own, *sorted(named)):
        run_process([*options, "create", "namespace", namespace], capture_output=True)
    command = [*options, *([] if named else ["-n", own]), "apply", "-f", "-"]
    done = run_process(command, input=manifest.text, capture_output=True, text=True)
    return classify(done.returncode, done.stderr), done.stderr.strip()


def print_pods(kubeconfig: Path, *, waiting: bool) -> None:
    """Print how many pods there are in each phase, and what those that wait say."""
    command = ["kubectl", "--kubeconfig", str(kubeconfig), "get", "pods", "-A", "-o", "json"]
    pods = json.loads(run_process(command, check=True, capture_output=True, text=True).stdout)["items"]
    phases = Counter(pod["status"]["phase"] for pod in pods)
    print("pods by phase:", ", ".join(f"{count} {phase}" for phase, count in phases.most_common()))
    for pod in pods if waiting else ():
        if pod["status"]["phase"] == "Pending":
            said = [condition.get("message", "") for condition in pod["status"].get("conditions", [])]
            print(f"  {pod['metadata']['namespace']}/{pod['metadata']['name']}: {' '.join(said)[:200]}")


def main() -> int:
    """Try all manifests and print the counts."""
    parser = argparse.ArgumentParser(description="Count what becomes of the manifests that Volcano ships.")
    parser.add_argument("--list", action="store_true", help="name each manifest that was not plainly accepted")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        described = json.loads(go(work, "mod", "download", "-json", f"volcano.sh/volcano@v{VOLCANO}"))
        module, kubeconfig = Path(described["Dir"]), work / "kubeconfig"
        command = [sys.executable, "-P", "-m", "pumice", "up", "--memory", "--port", "0", "--default-scheduler"]
        command += [*NODES, "--kubeconfig", str(kubeconfig)]
        environment = os.environ | {"PUMICE_UI": "0"}
        with (
            (work / "log").open("w") as log,
            started_process(command, stdout=log, stderr=log, env=environment) as process,
        ):
            while not kubeconfig.exists():
                if process.poll() is not None:
                    sys.stderr.write((work / "log").read_text())
                    return 1
                time.sleep(0.2)
            number = 0
            for title, manifests in (("examples", example_manifests(module)), ("docs", page_manifests(module))):
                counts: Counter[str] = Counter()
                for manifest in manifests:
                    number += 1
                    class_, said = try_manifest(manifest, number, kubeconfig)
                    counts[class_] += 1
                    if options.list and class_ != ACCEPTED:
                        print(f"  {manifest.source}: {class_}\n    {said[:300]}")
                print(f"{title} of Volcano {VOLCANO}: {counts.total()}")
                for class_, count in counts.most_common():
                    print(f"  {count:4}  {class_}")
            time.sleep(SETTLE_SECONDS)
            print_pods(kubeconfig, waiting=options.list)
    return 0


if __name__ == "__main__":
    sys.exit(main())
