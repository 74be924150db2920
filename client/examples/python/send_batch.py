"""Moves a record batch of Arrow from one process to another, which reads it in place. Each in a terminal:

    python send_batch.py receive              prints what to pass to the other, and waits
    python send_batch.py send NODE:BUFFER

Both build the same columns here; else send Layout.to_json() along.
"""

import sys

import pyarrow

import onecopy
import onecopy.arrow


def sample() -> pyarrow.RecordBatch:
    """Numbers and texts, some of them missing."""
    rows = 100_000
    return pyarrow.record_batch({
        "id": pyarrow.array(range(rows)),
        "name": pyarrow.array([None if i % 10 == 0 else f"name {i}" for i in range(rows)]),
    })


def receive(node: onecopy.Node) -> None:
    """Waits for a line from the keyboard, which says that the batch has arrived."""
    room = onecopy.arrow.empty(node, onecopy.arrow.layout_of(sample()))
    print(f"{node.name}:{room.memory.buffer.name}", flush=True)
    sys.stdin.readline()
    print(room.batch.slice(0, 5).to_pydict())


def send(node: onecopy.Node, destination: str) -> None:
    placed = onecopy.arrow.place(node, sample())
    print(node.transfer(placed.memory, destination, checksum=True).receipt)


if __name__ == "__main__":
    try:
        if sys.argv[1:] == ["receive"]:
            receive(onecopy.connect())
        elif len(sys.argv) == 3 and sys.argv[1] == "send":
            send(onecopy.connect(), sys.argv[2])
        else:
            sys.exit("usage: send_batch.py receive | send NODE:BUFFER")
    except onecopy.Error as failure:
        sys.exit(f"{failure}")
