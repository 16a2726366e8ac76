"""The GPUs of this machine, by UUID: from NVIDIA's library where it is installed, else from the driver's files."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from pumice.agent import nvml_listing

DRIVER = Path("/proc/driver/nvidia")
DEVICE = Path("/dev/nvidiactl")
LISTING_SECONDS = 60.0
"""How long the library may take: without persistence mode, the driver first wakes the GPUs."""


class Gpu(NamedTuple):
    """One GPU: the name by which programs choose it, and what it is."""

    uuid: str
    product: str = ""


def find_gpus(driver: Path = DRIVER, device: Path = DEVICE) -> list[Gpu]:
    """All GPUs that a driver of NVIDIA serves, in its order; none without a driver."""
    if not driver.is_dir() and not device.exists():
        return []
    return gpus_by_nvml() or gpus_by_driver_files(driver)


def gpus_by_nvml() -> list[Gpu]:
    """What NVIDIA's library tells; none where it is not installed."""
    command = [sys.executable, "-m", nvml_listing.__name__]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LISTING_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [Gpu(*line.split("\t", 1)) for line in done.stdout.splitlines()]


def gpus_by_driver_files(driver: Path) -> list[Gpu]:
    """What the driver writes about itself."""
    found = []
    for file in sorted(driver.glob("gpus/*/information")):
        fields = dict(re.findall(r"^([^:\n]+):\s*(.*?)\s*$", file.read_text(), re.MULTILINE))
        if uuid := fields.get("GPU UUID", ""):
            found.append(Gpu(uuid, fields.get("Model", "")))
    return found


def stand_in_gpus(count: int) -> list[Gpu]:
    """GPUs that are only counted: programs choose them by index."""
    return [Gpu(str(number)) for number in range(count)]
