"""Moves blocks of a KV cache by NIXL, with onecopy as its backend: what a prefill worker does for a decode worker. Each in
a terminal, after `export NIXL_PLUGIN_DIR=$(onecopy nixl-plugin-dir)`:

    python kv_cache.py decode                 prints what to pass to the other, and waits for the blocks
    python kv_cache.py prefill PRINTED        on another node

The caches are arrays of NumPy here: (layers, blocks, bytes of a block). On a GPU: the address of a tensor, its device's
number, and "VRAM" instead of "DRAM".
"""

import json
import sys

import numpy
from nixl_cu13._api import nixl_agent, nixl_agent_config

LAYERS, BLOCKS, BYTES = 4, 64, 16 << 10


def cache_of(agent):
    """A cache, and what NIXL knows it by."""
    cache = numpy.zeros((LAYERS, BLOCKS, BYTES), "uint8")
    return cache, agent.register_memory([(cache.ctypes.data, cache.nbytes, 0, "")], "DRAM")


def blocks_at(agent, address, numbers):
    """Some blocks of every layer, each a descriptor."""
    return agent.get_xfer_descs(
        [(address + (layer * BLOCKS + number) * BYTES, BYTES, 0) for layer in range(LAYERS) for number in numbers], "DRAM")


def decode(agent):
    cache, held = cache_of(agent)
    free = [3, 5, 8, 13]  # the blocks that the scheduler has for this request
    place = {"metadata": agent.get_agent_metadata().hex(), "address": cache.ctypes.data, "blocks": free}
    print(json.dumps(place), flush=True)
    notes = {}
    while not notes:  # a scheduler looks once a step
        notes = agent.get_new_notifs()
    print("told by", notes)
    assert (cache[:, free] == numpy.arange(1, len(free) + 1, dtype="uint8")[:, None]).all()
    assert not cache[:, [0, 1, 2]].any()
    print(f"{len(free)} blocks of {LAYERS} layers have arrived")
    agent.deregister_memory(held)


def prefill(agent, place):
    cache, held = cache_of(agent)
    mine = [0, 1, 2, 3]
    cache[:, mine] = numpy.arange(1, len(mine) + 1, dtype="uint8")[:, None]  # as the model would
    peer = agent.add_remote_agent(bytes.fromhex(place["metadata"]))
    handle = agent.initialize_xfer("WRITE", blocks_at(agent, cache.ctypes.data, mine),
                                   blocks_at(agent, place["address"], place["blocks"]), peer, b"request-1")
    state = agent.transfer(handle)  # and the model goes on
    while state == "PROC":
        state = agent.check_xfer_state(handle)
    print(state)
    agent.release_xfer_handle(handle)
    agent.deregister_memory(held)
    return state == "DONE"


if __name__ == "__main__":
    if sys.argv[1:] == ["decode"]:
        decode(nixl_agent("decode", nixl_agent_config(backends=["ONECOPY"])))
    elif len(sys.argv) == 3 and sys.argv[1] == "prefill":
        sys.exit(0 if prefill(nixl_agent("prefill", nixl_agent_config(backends=["ONECOPY"])), json.loads(sys.argv[2])) else 1)
    else:
        sys.exit("usage: kv_cache.py decode | prefill PRINTED")
