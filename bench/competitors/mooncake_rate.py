"""One sample of Mooncake's transfer engine: writes a payload from one process to another, over TCP on loopback.

Prints one line: rate BYTES_PER_SECOND verified 0|1
"""

import ctypes
import glob
import os
import sysconfig

import options
import target

ADDRESS = "127.0.0.1"


def make_engine():
    # Its library wants CUDA 12's runtime, which another package brings; the driver must be there.
    packages = sysconfig.get_paths()["purelib"]
    for library in glob.glob(f"{packages}/nvidia/cuda_runtime/lib/libcudart.so.12"):
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    from mooncake.engine import TransferEngine

    engine = TransferEngine()
    if engine.initialize(ADDRESS, "P2PHANDSHAKE", "tcp", "") != 0:
        raise RuntimeError("the engine does not start")
    return engine


def register(engine, place):
    if engine.register_memory(place.address, place.size) != 0:
        raise RuntimeError("the engine does not take the memory")


def serve(pipe, chosen):
    import memory

    engine = make_engine()
    place = memory.allocate(chosen.memory, chosen.bytes, chosen.gpus - 1)
    register(engine, place)
    pipe.send((engine.get_rpc_port(), place.address))
    target.answer(pipe, place)


def main():
    chosen = options.parse(__doc__)
    os.environ["MC_FORCE_TCP"] = "1"
    import memory

    other = target.Target(serve, chosen)
    engine = make_engine()
    source = memory.allocate(chosen.memory, chosen.bytes, 0)
    register(engine, source)
    port, address = other.hear()
    peer = f"{ADDRESS}:{port}"
    # Tuned: a batch of pieces, which its threads move side by side.
    pieces = chosen.threads if chosen.tuned else 1
    length = -(-chosen.bytes // pieces)
    offsets = range(0, chosen.bytes, length)
    lengths = [min(length, chosen.bytes - offset) for offset in offsets]

    def move():
        if pieces == 1:
            outcome = engine.transfer_sync_write(peer, source.address, address, chosen.bytes)
        else:
            outcome = engine.batch_transfer_sync_write(peer, [source.address + offset for offset in offsets],
                                                       [address + offset for offset in offsets], lengths)
        if outcome != 0:
            raise RuntimeError(f"the transfer ended with {outcome}")

    target.measure(other, source, move)


if __name__ == "__main__":
    main()
