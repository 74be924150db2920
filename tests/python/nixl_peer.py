"""An agent of NIXL's and some memory, in a process of its own, which does what it is told.

    python nixl_peer.py NAME RUN_DIR BYTES [DEVICE [BACKEND]]     # cpu, or a GPU of torch; ONECOPY, or another one

It prints one JSON document when it is ready, and one for each line of standard input: a JSON list of a word and its
arguments, see `Peer` below. NIXL_PLUGIN_DIR must be set.
"""

import hashlib
import json
import sys
import time

import numpy


class Host:
    kind, number = "DRAM", 0

    def __init__(self, size):
        self.bytes = numpy.zeros(size, dtype=numpy.uint8)
        self.address = self.bytes.ctypes.data

    def fill(self, seed):
        self.bytes[:] = (numpy.arange(len(self.bytes)) * 7 + seed) % 251

    def digest(self):
        return hashlib.sha256(self.bytes.tobytes()).hexdigest()


class Gpu:
    kind = "VRAM"

    def __init__(self, size, device):
        import torch
        self._torch = torch
        self.bytes = torch.zeros(size, dtype=torch.uint8, device=device)
        self.address, self.number = self.bytes.data_ptr(), self.bytes.device.index
        torch.cuda.synchronize()

    def fill(self, seed):
        at = self._torch.arange(len(self.bytes), device=self.bytes.device)
        self.bytes.copy_((at * 7 + seed) % 251)
        self._torch.cuda.synchronize()

    def digest(self):
        self._torch.cuda.synchronize()
        return hashlib.sha256(self.bytes.cpu().numpy().tobytes()).hexdigest()


def memory_on(device, size):
    return Host(size) if device == "cpu" else Gpu(size, device)


class Peer:
    """The agent, and what it can be told."""

    def __init__(self, name, run_dir, size, device="cpu", backend="ONECOPY"):
        from nixl_cu13._api import nixl_agent, nixl_agent_config
        self.agent = nixl_agent(name, nixl_agent_config(backends=[]))
        self.agent.create_backend(backend, {"run_dir": run_dir} if backend == "ONECOPY" else {})
        self.memory = memory_on(device, size)
        self.held = self.agent.register_memory([(self.memory.address, size, self.memory.number, "")], self.memory.kind)

    def place(self):
        """What another agent needs to know."""
        return {"metadata": self.agent.get_agent_metadata().hex(), "address": self.memory.address}

    def load(self, metadata):
        return self.agent.add_remote_agent(bytes.fromhex(metadata)).decode()

    def fill(self, seed):
        self.memory.fill(seed)

    def digest(self):
        return self.memory.digest()

    def notifications(self, count):
        """So many, as [agent, text]; waits for them."""
        found = []
        deadline = time.monotonic() + 60
        while len(found) < count:
            for agent, texts in self.agent.get_new_notifs().items():
                found += [[agent, text.decode()] for text in texts]
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(found)} notifications of {count}")
        return found

    def first_byte_at_notification(self):
        """The memory's first byte when one came: it must be what the writer wrote before."""
        self.notifications(1)
        return int(self.memory.bytes[0])

    def write(self, agent, address, value):
        """A byte of that value into another agent's memory: the last state, or what the failure is called."""
        self.memory.bytes[0] = value
        local = self.agent.get_xfer_descs([(self.memory.address, 1, 0)], "DRAM")
        remote = self.agent.get_xfer_descs([(address, 1, 0)], "DRAM")
        try:
            handle = self.agent.initialize_xfer("WRITE", local, remote, agent)
            state = self.agent.transfer(handle)
            while state == "PROC":
                state = self.agent.check_xfer_state(handle)
            self.agent.release_xfer_handle(handle)
        except Exception as failure:  # NIXL has a class for each number
            return str(failure)
        return state

    def notify(self, agent, text):
        self.agent.send_notif(agent, text.encode())

    def end(self):
        self.agent.deregister_memory(self.held)


def main():
    name, run_dir, size, *rest = sys.argv[1:]
    peer = Peer(name, run_dir, int(size), *rest)
    print(json.dumps(peer.place()), flush=True)
    for line in sys.stdin:
        word, *arguments = json.loads(line)
        print(json.dumps(getattr(peer, word)(*arguments)), flush=True)
        if word == "end":
            break


if __name__ == "__main__":
    main()
