"""The demonstration of deploy/quickstart: two daemons, one file, every path that works here."""

import argparse
import filecmp
import pathlib
import shutil
import signal
import sys
import tarfile
import tempfile
import time

from node import CommandFailed, Failed, Node

# The ladder of paths, fewest copies first.
_INSIDE_A_NODE = ("peer-direct", "local", "peer-bounce")
_BETWEEN_NODES = ("peer-direct", "rdma-direct", "rdma-bounce", "rdma-staged", "tcp-direct", "tcp-bounce", "tcp-staged")
_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_MEET_SECONDS = 30
_LOG_LINES = 40  # shown of a daemon's log when something failed
_POLICY_UNMET = 7  # exit status of `onecopy`


def main():
    parser = argparse.ArgumentParser(prog="deploy/quickstart")
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--sources", type=pathlib.Path, required=True)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--memory", choices=("host", "cuda"), default="host")
    parser.add_argument("--size", default="256MiB")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    place = pathlib.Path(tempfile.mkdtemp(prefix="onecopy-quickstart."))
    demonstration = Demonstration(arguments, place)
    kept = False
    try:
        demonstration.run()
        if arguments.keep:
            demonstration.say_how_to_go_on()
            kept = True
        else:
            demonstration.stop()
            print("\nEvery byte arrived.")
        return 0
    except Failed as failure:
        print(f"\nquickstart: {failure}", file=sys.stderr)
        print_logs(place)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        if not kept:
            demonstration.kill()
            shutil.rmtree(place, ignore_errors=True)


class Demonstration:
    """`place` is a temporary folder for run directories, logs and files."""

    def __init__(self, arguments, place):
        self._arguments = arguments
        self._place = place
        self._file = place / "file"
        self._back = place / "back"
        self._nodes = []
        self._rows = []

    def run(self):
        self._bytes = make_file(self._file, self._arguments.sources, size_of(self._arguments.size))
        print(f"file: these sources, packed, and random bytes: {self._bytes} bytes")
        west = self._start("west")
        east = self._start("east", [west])
        meet(east, "west")
        meet(west, "east")  # which was told of nobody
        memories = self._memories(east)
        self._create(east, "payload", memories[0])
        self._must(east, "cp", self._file, "payload")
        self._check(east, "payload", "the file in a buffer on east")
        for path in _INSIDE_A_NODE:
            self._try(east, path, "copy", east, memories[-1])
        for path in _BETWEEN_NODES:
            self._try(east, path, "copy", west, memories[-1])
        self._best(east, west, memories[-1])
        self._refusal(east)
        self._print_table()

    def stop(self):
        for node in reversed(self._nodes):
            node.stop()

    def kill(self):
        for node in self._nodes:
            node.kill()

    def say_how_to_go_on(self):
        onecopy = self._arguments.bin / "onecopy"
        print(f"\nThe daemons go on. Talk to east, and through it to west:\n"
              f"  export ONECOPY_RUN_DIR={self._nodes[1].run_dir}\n"
              f"  {onecopy} node ls\n"
              f"  {onecopy} explain payload west:result\n"
              f"  {onecopy} cp payload west:result --checksum\n"
              f"Stop them and remove what they left:\n"
              f"  kill {' '.join(str(node.pid) for node in self._nodes)}\n"
              f"  rm -r {self._place}")

    def _start(self, name, peers=()):
        node = Node(self._arguments.bin, name, self._place, peers)
        self._nodes.append(node)
        print(f"{name}: onecopyd, process {node.pid}, at {node.address}, run directory {node.run_dir}")
        return node

    def _memories(self, east):
        """Where the buffers are: on one GPU and on another one, if there are two."""
        if self._arguments.memory == "host":
            return ["host"]
        gpus = [memory for memory in east.run("node", "show")["memories"] if memory["kind"] == "cuda"]
        usable = [f"cuda:{gpu['ordinal']}" for gpu in gpus if gpu["viability"]["viable"]]
        if not usable:
            reasons = "; ".join(f"{gpu['viability']['reason']}: {gpu['viability']['detail']}" for gpu in gpus)
            raise Failed(f"--memory cuda: no GPU can be used here: {reasons or 'none is known'}")
        return usable[:2]

    def _create(self, node, name, memory):
        node.run("buffer", "create", name, "--size", str(self._bytes), "--memory", memory)

    def _must(self, node, *command):
        status = node.show(*command)
        if status != 0:
            raise Failed(f"`onecopy {command[0]}` ended with status {status}")

    def _try(self, source, path, name, destination, memory):
        """Moves the payload by that path into a new buffer, if the path works here."""
        end = f"{destination.name}:{name}"
        self._create(destination, name, memory)
        try:
            receipt = source.run("cp", "payload", end, "--path", path, "--checksum")
        except CommandFailed as failure:
            if failure.status != _POLICY_UNMET:
                raise
            refusal = next((each for each in failure.error["refused"] if each["path"] == path), None)
            if refusal is None:
                raise Failed(f"{path} was refused without a reason") from failure
            self._rows.append((path, end, "–", "–", f"not here: {refusal['reason']}"))
        else:
            if receipt["path"] != path or receipt["copies"] != len(receipt["steps"]):
                raise Failed(f"asked for {path}, the receipt says {receipt['path']}, {receipt['copies']} copies in "
                             f"{len(receipt['steps'])} steps")
            self._must(destination, "transfer", "show", receipt["id"])
            self._check(destination, name, f"{path} to {end}")
            rate = f"{receipt['bytes_per_second'] / 1e9:.2f} GB/s"
            self._rows.append((path, end, receipt["copies"], rate, "equal"))
        destination.run("buffer", "rm", name)

    def _best(self, east, west, memory):
        """What a user would do: leave the path to the daemon."""
        self._create(west, "result", memory)
        self._must(east, "cp", "payload", "west:result", "--checksum")
        self._must(west, "cp", "result", self._back)
        if not filecmp.cmp(self._file, self._back, shallow=False):
            raise Failed("the file that came back differs from the one that was sent")
        self._back.unlink()

    def _check(self, node, name, what):
        """Reads a buffer back into a file and compares it with the file that was sent."""
        node.run("cp", name, self._back)
        if not filecmp.cmp(self._file, self._back, shallow=False):
            raise Failed(f"{what}: the bytes differ from those of the file")
        self._back.unlink()

    def _refusal(self, east):
        print("\nWhat cannot be met fails before a byte moves, with every reason:", flush=True)
        status = east.show("explain", "payload", "west:result", "--at-most", "1")
        if status not in (0, _POLICY_UNMET):
            raise Failed(f"`onecopy explain` ended with status {status}")
        if status == _POLICY_UNMET:
            moved = east.show("cp", "payload", "west:result", "--at-most", "1")
            if moved != _POLICY_UNMET:
                raise Failed(f"what cannot be met must end with status {_POLICY_UNMET}, not {moved}")

    def _print_table(self):
        rows = [("path", "to", "copies", "rate", "bytes"), *self._rows]
        widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
        print(f"\n{self._bytes} bytes from east:payload ({self._arguments.memory} memory), over loopback:")
        for row in rows:
            print("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip())
        if not any(row[4] == "equal" and row[1].startswith("west:") for row in self._rows):
            raise Failed("no path between the nodes works here")


def print_logs(place):
    for log in sorted(place.glob("*.log")):
        lines = log.read_text(errors="replace").splitlines()
        if lines:
            print(f"{log.name}:", *lines[-_LOG_LINES:], sep="\n", file=sys.stderr)


def size_of(text):
    digits = text.rstrip("KMGTiB")
    return int(digits) * _UNITS[text[len(digits):]]


def make_file(path, sources, size):
    """The sources, packed, then random bytes up to the size. Returns the size."""
    with tarfile.open(path, "w") as packed:
        for entry in sorted(sources.iterdir()):
            if entry.name != "build" and not entry.name.startswith("."):
                packed.add(entry, entry.name)
    with path.open("r+b") as file, open("/dev/urandom", "rb") as random:
        file.seek(0, 2)
        if file.tell() > size:
            file.truncate(size)
        while file.tell() < size:
            file.write(random.read(min(1 << 20, size - file.tell())))
    return size


def meet(node, peer):
    """Waits until a node and its peer have introduced themselves."""
    deadline = time.monotonic() + _MEET_SECONDS
    while True:
        found = {each["name"]: each for each in node.run("node", "ls")}.get(peer)
        if found and found["state"] == "CONNECTED":
            return
        if time.monotonic() > deadline:
            raise Failed(f"{node.name} and {peer} did not meet within {_MEET_SECONDS} s: {found}")
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
