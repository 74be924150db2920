"""Moves an array of NumPy into a buffer of another node, and prints which way it went:

    onecopy --run-dir … buffer create there --size 4MiB --memory host      on node west
    python send_array.py west:there                                        here
"""

import sys

import numpy

import onecopy


def show(now: onecopy.Transfer) -> None:
    """How far it is."""
    print(f"\r{100 * now.bytes_done // max(1, now.bytes)} %", end="", file=sys.stderr)


def main(destination: str) -> int:
    """The exit status."""
    try:
        node = onecopy.connect()  # the daemon of this machine, or that of $ONECOPY_RUN_DIR
        shared = node.empty((1024, 1024), "float32")  # memory that the daemon reads in place
        array = numpy.asarray(shared)  # the same memory
        array[:] = numpy.random.default_rng(1).random((1024, 1024), dtype="float32")
        plan: onecopy.Plan = node.explain(array, destination)
        print(plan)
        done: onecopy.Transfer = node.transfer(array, destination, checksum=True, deadline=60, progress=show)
    except onecopy.Error as failure:
        print(f"{failure.reason}: {failure}", file=sys.stderr)  # what failed, on what, why, and what to do
        return 1
    receipt: onecopy.Receipt = done.receipt
    print(receipt)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: send_array.py NODE:BUFFER")
    sys.exit(main(sys.argv[1]))
