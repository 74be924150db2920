"""Other people's packages with native parts, each used for something: an import alone leaves much of it unbound."""

import ctypes.util
import importlib.util
import os
import pathlib
import subprocess

CLIENT = pathlib.Path(os.environ["ONECOPY_BIN_DIR"]).parent / "lib" / "libonecopy_client.so"
GRPC = "libgrpc++.so.1.51"

USERS = {
    "numpy": """
import numpy
assert numpy.linalg.det(numpy.eye(3)) == 1
""",
    "nixl": """
from nixl_cu13._api import nixl_agent, nixl_agent_config
agent = nixl_agent("someone", nixl_agent_config(backends=[]))
assert "UCX" in agent.get_plugin_list()
""",
    "nixl-ucx": """
import atexit, os, sys, numpy
# Of nixl-cu13 1.5.1 alone, a process in which a backend UCX was made ends by a segmentation fault on some machines.
atexit.register(lambda: (sys.stdout.flush(), os._exit(0)))
from nixl_cu13._api import nixl_agent, nixl_agent_config
agent_with_ucx = nixl_agent("with-ucx", nixl_agent_config(backends=["UCX"]))
memory = numpy.zeros(4096, dtype=numpy.uint8)
held = agent_with_ucx.register_memory([(memory.ctypes.data, memory.nbytes, 0, "")], "DRAM")
assert agent_with_ucx.get_agent_metadata()
agent_with_ucx.deregister_memory(held)
""",
    # Everybody finds its gRPC before their own, unless theirs has other names.
    "nixl-for-all": """
import os, sys
normal = sys.getdlopenflags()
sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
from nixl_cu13._api import nixl_agent, nixl_agent_config
sys.setdlopenflags(normal)
assert "UCX" in nixl_agent("for-all", nixl_agent_config(backends=[])).get_plugin_list()
""",
    # Likewise the distribution's, which has the version that we have.
    "grpc-for-all": f"""
import ctypes
ctypes.CDLL({GRPC!r}, mode=ctypes.RTLD_GLOBAL)
""",
    # Our own plug-in: a second library of this wheel, which NIXL loads. NIXL_PLUGIN_DIR must be set.
    "nixl-onecopy": """
import os, numpy
from nixl_cu13._api import nixl_agent, nixl_agent_config
agent_with_onecopy = nixl_agent("with-onecopy", nixl_agent_config(backends=[]))
agent_with_onecopy.create_backend("ONECOPY", {"run_dir": os.environ["ONECOPY_RUN_DIR"]})
moved = numpy.arange(8192, dtype=numpy.uint8)
held_by_onecopy = agent_with_onecopy.register_memory([(moved.ctypes.data, moved.nbytes, 0, "")], "DRAM")
here = agent_with_onecopy.get_xfer_descs([(moved.ctypes.data, 4096, 0)], "DRAM")
there = agent_with_onecopy.get_xfer_descs([(moved.ctypes.data + 4096, 4096, 0)], "DRAM")
moved[4096:] = 0
handle = agent_with_onecopy.initialize_xfer("WRITE", here, there, "with-onecopy", backends=["ONECOPY"])
state = agent_with_onecopy.transfer(handle)
while state == "PROC":
    state = agent_with_onecopy.check_xfer_state(handle)
assert state == "DONE", state
assert (moved[:4096] == moved[4096:]).all() and moved[100] == 100
agent_with_onecopy.release_xfer_handle(handle)
agent_with_onecopy.deregister_memory(held_by_onecopy)
""",
    # The C++ library, by the distribution's gRPC and protobuf. It has the messages that we have, with descriptors.
    "onecopy-client": f"""
import ctypes
ctypes.CDLL({str(CLIENT)!r})
""",
    "grpcio": """
import concurrent.futures, grpc
server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
echo = grpc.unary_unary_rpc_method_handler(lambda request, context: request)
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", {"Say": echo}),))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
    assert channel.unary_unary("/test.Echo/Say")(b"hello", timeout=60) == b"hello"
server.stop(None).wait()
""",
    "pyarrow": """
import threading, pyarrow, pyarrow.compute, pyarrow.flight
assert pyarrow.compute.sum(pyarrow.array([1, 2, 3])).as_py() == 6
class Server(pyarrow.flight.FlightServerBase):
    def list_actions(self, context):
        return [("hello", "")]
with Server("grpc://127.0.0.1:0") as server:
    with pyarrow.flight.connect(f"grpc://127.0.0.1:{server.port}") as client:
        assert client.list_actions()[0].type == "hello"
""",
    "protobuf": """
from google.protobuf import struct_pb2
from google.protobuf.internal import api_implementation
assert api_implementation.Type() in ("upb", "cpp")
made = struct_pb2.Struct()
made["a"] = 1
assert struct_pb2.Struct.FromString(made.SerializeToString())["a"] == 1
""",
    "torch": """
import torch
assert int((torch.arange(10) * 2).sum()) == 90
""",
    "ray": """
import ray
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
assert ray.get(ray.put(41)) + 1 == 42
ray.shutdown()
""",
}

_MODULES = {"nixl": "nixl_cu13", "nixl-for-all": "nixl_cu13", "nixl-ucx": "nixl_cu13", "nixl-onecopy": "nixl_cu13", "grpcio": "grpc", "protobuf": "google.protobuf"}

OURS = """
import onecopy
node = onecopy.connect()
one, other = node.empty(1 << 20, "uint8"), node.empty(1 << 20, "uint8")
one.memory[:] = b"x" * (1 << 20)
assert node.transfer(one, other, checksum=True).receipt.checksum.verified
assert other.memory == one.memory
try:
    node.buffer("nothing-of-this-name")
except onecopy.NotFound as failure:
    assert failure.reason == "BUFFER_NOT_FOUND"
else:
    raise AssertionError("found")
"""


def environment(run_dir, cache):
    """What the users and OURS need to know; the plug-ins for NIXL go below `cache`."""
    env = dict(os.environ, ONECOPY_RUN_DIR=str(run_dir))
    if present("nixl"):
        import onecopy
        env["NIXL_PLUGIN_DIR"] = subprocess.run([onecopy.program(), "nixl-plugin-dir", "--cache", cache], check=True,
                                                capture_output=True, text=True).stdout.strip()
    return env


def present(name):
    """Whether the package is installed here, or the library built."""
    if name == "onecopy-client":
        return CLIENT.exists()
    if name == "grpc-for-all":
        return ctypes.util.find_library("grpc++") == GRPC
    try:
        return importlib.util.find_spec(_MODULES.get(name, name)) is not None
    except ModuleNotFoundError:
        return False
