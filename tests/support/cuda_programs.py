"""Programs for pods that use CUDA's driver library and nothing else: they print what the driver lets them see."""

from __future__ import annotations

import sys

HELD_BYTES = 1 << 30

_LIST = """
import ctypes, sys, uuid
cuda = ctypes.CDLL("libcuda.so.1")
NO_DEVICE = 100
def must(status):
    if status:
        print(f"CUDA error {status}", flush=True)
        sys.exit(1)
started, count = cuda.cuInit(0), ctypes.c_int(0)
if started != NO_DEVICE:
    must(started)
    must(cuda.cuDeviceGetCount(ctypes.byref(count)))
for number in range(count.value):
    name = (ctypes.c_ubyte * 16)()
    must(cuda.cuDeviceGetUuid(name, number))
    print("GPU-" + str(uuid.UUID(bytes=bytes(name))), flush=True)
print(count.value, "GPUs", flush=True)
"""
_KEEP_BUSY = f"""
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
must(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t({HELD_BYTES})))
print("busy", flush=True)
while True:
    must(cuda.cuMemsetD32_v2(memory, 7, ctypes.c_size_t({HELD_BYTES} // 4)))
    must(cuda.cuCtxSynchronize())
"""


def list_gpus() -> list[str]:
    """A command that prints the UUIDs of the GPUs that it can use, and their number."""
    return [sys.executable, "-c", _LIST]


def keep_gpu_busy() -> list[str]:
    """The same, and then it holds memory of the first one and writes to it for ever."""
    return [sys.executable, "-c", _LIST + _KEEP_BUSY]
