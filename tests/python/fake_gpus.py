"""GPUs without a GPU: the tests' CUDA driver, whose memory is the host's and whose streams are threads.

It is the driver of a daemon (`config`), of onecopy.connect(cuda_library=LIBRARY) and of `Driver` here.
"""

import ctypes
import os
import pathlib
import threading

LIBRARY = pathlib.Path(os.environ["ONECOPY_BIN_DIR"]).parent / "lib" / "libonecopy_fake_cuda.so"
_NON_BLOCKING = 1
_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def config(folder):
    """Arguments for a daemon with these GPUs."""
    path = folder / "fake_gpus.toml"
    path.write_text(f'[libraries]\ncuda = "{LIBRARY}"\n')
    return ["--config", path]


class Driver:
    """What a program of the user's asks of the driver, on GPU 0."""

    def __init__(self):
        self._library = ctypes.CDLL(str(LIBRARY))
        self._kept = []
        self._context = ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), 0)
        self._call("cuCtxSetCurrent", self._context)

    def _call(self, name, *arguments):
        assert getattr(self._library, name)(*arguments) == 0, name

    def stream(self):
        return Stream(self)

    def queue(self, stream, function):
        """Calls it on the stream's thread, when that has come so far."""
        called = _HOST_FUNCTION(lambda _: function())
        self._kept.append(called)
        self._call("cuLaunchHostFunc", ctypes.c_void_p(stream), called, None)

    def new_stream(self):
        made = ctypes.c_void_p()
        self._call("cuStreamCreate", ctypes.byref(made), _NON_BLOCKING)
        return made.value


class Stream:
    """One of the driver's, as frameworks have them."""

    def __init__(self, driver):
        self._driver = driver
        self.handle = driver.new_stream()

    def __cuda_stream__(self):
        return 0, self.handle

    def hold_up(self):
        """Until the event is set."""
        gate = threading.Event()
        self._driver.queue(self.handle, gate.wait)
        return gate

    def mark(self):
        """An event that is set when the stream has come so far."""
        reached = threading.Event()
        self._driver.queue(self.handle, reached.set)
        return reached


class Foreign:
    """Another framework's array: memory of a GPU by its address alone."""

    def __init__(self, address, shape, strides=None, typestr="|u1", keeps=None):
        self.keeps = keeps
        self.shape = shape
        self.__cuda_array_interface__ = {"version": 3, "shape": shape, "typestr": typestr, "data": (address, False),
                                         "strides": strides, "stream": None}


def read(address, size):
    """The bytes of such memory."""
    return ctypes.string_at(address, size)


def write(address, data):
    ctypes.memmove(address, data, len(data))
