"""Calls everything of backend ONECOPY that a wheel of NIXL can call, in one process, and fails where bytes are not as
they must be: so the layouts in client/nixl/abi.h are those of that wheel.

    python nixl_calls.py PACKAGE FOLDER RUN_DIR

PACKAGE is nixl_cu12 or nixl_cu13, FOLDER where it is installed or unpacked. NIXL_PLUGIN_DIR must be set.
"""

import importlib
import sys
import time
import types

import numpy


def agents(package, run_dir):
    if "torch" not in sys.modules:  # older wheels import it, and use its name for a type alone
        torch = types.ModuleType("torch")
        torch.Tensor = type("Tensor", (), {})
        sys.modules["torch"] = torch
    api = importlib.import_module(package + "._api")
    made = []
    for name in ("one", "two"):
        agent = api.nixl_agent(name, api.nixl_agent_config(backends=[], capture_telemetry=True))
        agent.create_backend("ONECOPY", {"run_dir": run_dir})
        made.append(agent)
    return made


def finish(agent, handle):
    state, deadline = agent.transfer(handle), time.monotonic() + 120
    while state == "PROC":
        assert time.monotonic() < deadline, "the transfer does not end"
        state = agent.check_xfer_state(handle)
    assert state == "DONE", state


def notifications(agent, count):
    found, deadline = [], time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} notifications of {count}"
        for sender, texts in agent.get_new_notifs().items():
            found += [(sender, text) for text in texts]
    return found


def main():
    package, folder, run_dir = sys.argv[1:]
    sys.path.insert(0, folder)
    one, two = agents(package, run_dir)
    assert set(one.get_backend_mem_types("ONECOPY")) in ({"DRAM", "VRAM"}, {"DRAM_SEG", "VRAM_SEG"})
    assert one.get_backend_params("ONECOPY")["run_dir"] == run_dir
    here = (numpy.arange(1 << 16) % 251).astype(numpy.uint8)
    there = numpy.zeros(1 << 16, dtype=numpy.uint8)
    mine = one.register_memory([(here.ctypes.data, here.nbytes, 0, "")], "DRAM")
    theirs = two.register_memory([(there.ctypes.data, there.nbytes, 0, "")], "DRAM")
    peer = one.add_remote_agent(two.get_agent_metadata())
    one.make_connection(peer)

    # Two descriptors of unlike sizes, and a notification with the transfer.
    local = one.get_xfer_descs([(here.ctypes.data, 100, 0), (here.ctypes.data + 4096, 5000, 0)], "DRAM")
    remote = one.get_xfer_descs([(there.ctypes.data + 7, 100, 0), (there.ctypes.data + 9000, 5000, 0)], "DRAM")
    handle = one.initialize_xfer("WRITE", local, remote, peer, b"first")
    finish(one, handle)
    expected = numpy.zeros_like(there)
    expected[7:107], expected[9000:14000] = here[:100], here[4096:9096]
    assert (there == expected).all()
    assert notifications(two, 1) == [("one", b"first")]
    finish(one, handle)
    assert notifications(two, 1) == [("one", b"first")]
    assert one.get_xfer_telemetry(handle).totalBytes == 5100
    one.release_xfer_handle(handle)

    # Prepared lists, reading.
    there[:] = numpy.arange(1 << 16) % 241
    local = one.prep_xfer_dlist("", one.get_xfer_descs([(here.ctypes.data, 1 << 16, 0)], "DRAM"))
    remote = one.prep_xfer_dlist(peer, one.get_xfer_descs([(there.ctypes.data, 1 << 16, 0)], "DRAM"))
    handle = one.make_prepped_xfer("READ", local, [0], remote, [0], b"second")
    finish(one, handle)
    assert (here == there).all()
    one.release_xfer_handle(handle)
    one.send_notif(peer, b"alone")
    assert notifications(two, 2) == [("one", b"second"), ("one", b"alone")]

    # Within the agent.
    copied = one.initialize_xfer(
        "WRITE", one.get_xfer_descs([(here.ctypes.data, 1000, 0)], "DRAM"),
        one.get_xfer_descs([(here.ctypes.data + 2000, 1000, 0)], "DRAM"), "one")
    finish(one, copied)
    assert (here[2000:3000] == here[:1000]).all()
    one.release_xfer_handle(copied)

    one.remove_remote_agent(peer)
    one.deregister_memory(mine)
    two.deregister_memory(theirs)
    print("called")


if __name__ == "__main__":
    main()
