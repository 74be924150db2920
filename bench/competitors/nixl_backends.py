#!/usr/bin/env python3
"""Holds NIXL with backend ONECOPY against NIXL with its own UCX, on CPU memory of two processes, in one run.

    NIXL_PLUGIN_DIR=$(onecopy nixl-plugin-dir) bench/competitors/nixl_backends.py --run-dir HERE --other-run-dir THERE

Each work is run in turns with the one and the other, and the median counts; every payload is compared at the end. UCX is as it
comes, unless the environment says otherwise (UCX_TLS and the like). Prints a table, or with --json one document.
"""

import argparse
import atexit
import json
import multiprocessing
import os
import statistics
import sys
import time

import numpy

BACKENDS = ("UCX", "ONECOPY")
# Name, bytes of a descriptor, number of descriptors.
WORKS = (("4 KiB", 4096, 1), ("1 MiB", 1 << 20, 1), ("256 MiB", 256 << 20, 1), ("16,384 of 16 KiB", 16384, 16384))
REGION = 512 << 20


def _agent(name, run_dir):
    from nixl_cu13._api import nixl_agent, nixl_agent_config
    agent = nixl_agent(name, nixl_agent_config(backends=[]))
    agent.create_backend("UCX")
    agent.create_backend("ONECOPY", {"run_dir": run_dir})
    return agent


def _target(run_dir, pipe):
    agent = _agent("target", run_dir)
    memory = numpy.zeros(REGION, dtype=numpy.uint8)
    held = agent.register_memory([(memory.ctypes.data, REGION, 0, "")], "DRAM")
    pipe.send((agent.get_agent_metadata(), memory.ctypes.data))
    while (asked := pipe.recv()) is not None:
        size, count = asked
        pipe.send(bytes(memory[:2 * size * count].reshape(count, 2 * size)[:, :size].sum(axis=1, dtype=numpy.uint64)))
        memory[:] = 0
    agent.deregister_memory(held)


def _time(agent, handle):
    begun = time.perf_counter()
    state = agent.transfer(handle)
    while state == "PROC":
        state = agent.check_xfer_state(handle)
    if state != "DONE":
        raise SystemExit(f"nixl_backends: a transfer ended as {state}")
    return time.perf_counter() - begun


def run(arguments):
    multiprocessing.set_start_method("spawn")
    pipe, other = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_target, args=(arguments.other_run_dir, other))
    process.start()
    agent = _agent("initiator", arguments.run_dir)
    memory = (numpy.arange(REGION, dtype=numpy.uint32) * 2654435761 >> 24).astype(numpy.uint8)
    held = agent.register_memory([(memory.ctypes.data, REGION, 0, "")], "DRAM")
    metadata, there = pipe.recv()
    peer = agent.add_remote_agent(metadata)
    results = []
    for name, size, count in WORKS:
        places = [2 * size * i for i in range(count)]
        local = agent.get_xfer_descs([(memory.ctypes.data + at, size, 0) for at in places], "DRAM")
        remote = agent.get_xfer_descs([(there + at, size, 0) for at in places], "DRAM")
        handles = {each: agent.initialize_xfer("WRITE", local, remote, peer, backends=[each]) for each in BACKENDS}
        seconds = {each: [] for each in BACKENDS}
        for backend in BACKENDS:
            _time(agent, handles[backend])
            pipe.send((size, count))
            expected = memory[:2 * size * count].reshape(count, 2 * size)[:, :size].sum(axis=1, dtype=numpy.uint64)
            if pipe.recv() != bytes(expected):
                raise SystemExit(f"nixl_backends: {backend} brought other bytes than were sent ({name})")
        for _ in range(arguments.rounds):
            for backend in BACKENDS:
                seconds[backend].append(_time(agent, handles[backend]))
        medians = {each: statistics.median(times) for each, times in seconds.items()}
        results.append({"work": name, "bytes": size * count, "descriptors": count, "seconds": medians,
                        "ratio": medians["UCX"] / medians["ONECOPY"]})
        for handle in handles.values():
            agent.release_xfer_handle(handle)
    pipe.send(None)
    process.join()
    agent.deregister_memory(held)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run-dir", required=True, help="of the daemon of the agent that writes")
    parser.add_argument("--other-run-dir", required=True, help="of that of the other")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    # Of nixl-cu13 1.5.1 alone, a process in which a backend UCX was made ends by a segmentation fault on some machines.
    atexit.register(lambda: (sys.stdout.flush(), os._exit(0)))
    results = run(arguments)
    if arguments.json:
        print(json.dumps(results))
        return
    print(f"{'work':<20}{'UCX':>14}{'ONECOPY':>14}{'ONECOPY / UCX':>16}")
    for each in results:
        rates = [f"{each['bytes'] / each['seconds'][backend] / 1e9:.2f} GB/s" for backend in BACKENDS]
        print(f"{each['work']:<20}{rates[0]:>14}{rates[1]:>14}{each['ratio']:>15.2f}x")


if __name__ == "__main__":
    main()
