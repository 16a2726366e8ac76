"""``python -m pumice.agent.nvml_listing``: the GPUs of this machine by NVML, one to a line: UUID, tab, product.

A process of its own, so that neither NVIDIA's library nor its Python module stays in the memory of the agent.
"""

from __future__ import annotations

import sys
from importlib import import_module

NO_LIBRARY, NO_ANSWER = 3, 4  # exit codes


def main() -> int:
    """Print the GPUs; the exit code."""
    try:
        pynvml = import_module("pynvml")  # of the package nvidia-ml-py, which is optional
    except ImportError:
        return NO_LIBRARY
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount())]
        lines = [f"{pynvml.nvmlDeviceGetUUID(each)}\t{pynvml.nvmlDeviceGetName(each)}\n" for each in handles]
    except pynvml.NVMLError:
        return NO_ANSWER
    sys.stdout.writelines(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
