"""The GPUs of this machine, by UUID: from NVIDIA's library where it is installed, else from the driver's files."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

DRIVER = Path("/proc/driver/nvidia")


class Gpu(NamedTuple):
    """One GPU: the name by which programs choose it, and what it is."""

    uuid: str
    product: str = ""


def find_gpus(driver: Path = DRIVER) -> list[Gpu]:
    """All GPUs that a driver of NVIDIA serves, in its order; none without a driver."""
    if not driver.is_dir():
        return []
    return _from_library() or _from_driver(driver)


def _from_library() -> list[Gpu]:
    try:
        pynvml = import_module("pynvml")  # not a dependency: where it is installed, it knows most
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount())]
        return [Gpu(_text(pynvml.nvmlDeviceGetUUID(each)), _text(pynvml.nvmlDeviceGetName(each))) for each in handles]
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()


def _from_driver(driver: Path) -> list[Gpu]:
    found = []
    for file in sorted(driver.glob("gpus/*/information")):
        fields = dict(re.findall(r"^([^:\n]+):\s*(.*?)\s*$", file.read_text(), re.MULTILINE))
        if uuid := fields.get("GPU UUID", ""):
            found.append(Gpu(uuid, fields.get("Model", "")))
    return found


def stand_in_gpus(count: int) -> list[Gpu]:
    """GPUs that are only counted: programs choose them by index."""
    return [Gpu(str(number)) for number in range(count)]


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
