"""Memory of either kind for the competitors' scripts, and payloads in it that can be told apart.

GPU memory comes from the driver itself (cuMemAlloc), so that no other package is needed.
"""

import ctypes
import mmap

import numpy


def payload(size, seed):
    """`size` bytes that differ from place to place and from seed to seed."""
    words = numpy.arange((size + 7) // 8, dtype=numpy.uint64)
    words += numpy.uint64(seed * 0x9E3779B97F4A7C15 % (1 << 64))
    words *= numpy.uint64(0xD6E8FEB86659FD93)
    words ^= words >> numpy.uint64(32)
    return words.view(numpy.uint8)[:size]


class Host:
    """Resident host memory."""

    def __init__(self, size):
        self._map = mmap.mmap(-1, size)
        self._bytes = numpy.frombuffer(self._map, dtype=numpy.uint8)
        self._bytes[:] = 0
        self.address = self._bytes.ctypes.data
        self.size = size
        self.device = 0

    def put(self, data):
        self._bytes[:] = data

    def get(self):
        return self._bytes


class Cuda:
    """Memory of a GPU, in its primary context, which becomes the thread's own."""

    def __init__(self, size, device):
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        context, pointer, handle = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(handle), device)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
        self._call("cuCtxSetCurrent", context)
        self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        self.address = pointer.value
        self.size = size
        self.device = device

    def _call(self, name, *arguments):
        error = getattr(self._driver, name)(*arguments)
        if error:
            raise OSError(f"{name} gives CUDA error {error}")

    def put(self, data):
        self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address), ctypes.c_void_p(data.ctypes.data),
                   ctypes.c_size_t(self.size))

    def get(self):
        data = numpy.empty(self.size, dtype=numpy.uint8)
        self._call("cuMemcpyDtoH_v2", ctypes.c_void_p(data.ctypes.data), ctypes.c_uint64(self.address),
                   ctypes.c_size_t(self.size))
        return data


def allocate(kind, size, number):
    """`kind` is "host" or "cuda"; `number` says which GPU, where there are several."""
    return Host(size) if kind == "host" else Cuda(size, number)
