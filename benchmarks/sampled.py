"""Runs ``pumice`` and samples where its CPU time goes, by part of the path of a pod.

python -m benchmarks.sampled FILE ARGUMENTS      like ``pumice ARGUMENTS``; writes the parts to FILE at its end

Every few milliseconds of CPU time a signal looks at the Python stack of the main thread. The first part in the lists
below that has a function on the stack gets the sample. So a part includes what it calls: the binder includes the HTTP
client. The kernel delivers at most one signal per tick (4 ms), so a run needs some seconds to give a picture.
"""

from __future__ import annotations

import atexit
import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

SECONDS = 0.002
SERVER_PARTS = {
    "kubelets": ("kubesim/kubelet/",),
    "bindings": ("create_binding",),
    "creations": ("ObjectWriter.create", "RequestHandler._create"),
    "patches": ("RequestHandler._patch",),
    "watches": ("Connection._send_stream", "kubesim/api/watch.py"),
    "controllers": ("kubesim/controllers/", "pumice/embedded/unserved_pods.py"),
    "storage": ("kubesim/storage/",),
    "HTTP": ("kubesim/http/",),
}
SCHEDULER_PARTS = {
    "engine": ("pumice/engine/",),
    "cache": ("pumice/scheduler/cluster_cache.py",),
    "events": ("pumice/kube/event_recorder.py",),
    "status": ("pumice/scheduler/status_writer.py", "status_updater.py", "pumice/scheduler/pod_conditions.py"),
    "binder": ("pumice/scheduler/binder.py",),
    "informers": ("pumice/kube/watch/",),
    "loop": ("pumice/scheduler/loop.py",),
    "HTTP": ("pumice/kube/client/",),
}
STARTUP = "start"
OTHER = "other"


def part_of(stack: list[str], parts: dict[str, tuple[str, ...]]) -> str:
    """The part that a stack of functions, each with its file, belongs to."""
    for part, marks in parts.items():
        if any(mark in function for function in stack for mark in marks):
            return part
    return OTHER if any("run_forever" in function for function in stack) else STARTUP


def sample(target: Path, parts: dict[str, tuple[str, ...]]) -> None:
    """Sample this process until its end, and write how many samples each part got."""
    samples: Counter[str] = Counter()

    def look(_: int, frame: FrameType | None) -> None:
        stack = []
        while frame is not None:
            stack.append(f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}")
            frame = frame.f_back
        samples[part_of(stack, parts)] += 1

    def write() -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        target.write_text(json.dumps(samples))

    atexit.register(write)
    signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)


if __name__ == "__main__":
    file, *arguments = sys.argv[1:]
    sample(Path(file), SERVER_PARTS if arguments[0] == "up" else SCHEDULER_PARTS)
    from pumice.cli.main import main

    sys.argv = ["pumice", *arguments]
    main()
