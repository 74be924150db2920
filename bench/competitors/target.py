"""The process at the other end of a competitor's transfer: it has the destination's memory, and looks at what arrived."""

import multiprocessing
import os
import time

WARM_UP, MEASURED = 1, 2  # seeds of the payloads


class Target:
    """`serve(pipe, chosen)` runs in a process of its own. It sends what the initiator must know, then calls answer()."""

    def __init__(self, serve, chosen):
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, chosen), daemon=True)
        self._process.start()

    def hear(self, patience=60):
        if not self._pipe.poll(patience):
            raise RuntimeError("the other process says nothing")
        return self._pipe.recv()

    def holds(self, seed):
        self._pipe.send(seed)
        return self.hear()


def answer(pipe, place, progress=lambda: None):
    """Says for each seed that is asked about whether its payload is there. Ends with the process that asks."""
    import memory

    while True:
        while not pipe.poll(0.0005):
            progress()
        try:
            seed = pipe.recv()
        except EOFError:
            return
        pipe.send(bool((place.get() == memory.payload(place.size, seed)).all()))


def measure(target, source, move):
    """One warm-up, which connects, and one sample of `move`, each with a payload of its own; prints the rate."""
    import memory

    verified = True
    for seed in (WARM_UP, MEASURED):
        source.put(memory.payload(source.size, seed))
        begin = time.perf_counter()
        move()
        seconds = time.perf_counter() - begin
        verified = target.holds(seed) and verified
    print(f"rate {source.size / seconds:.1f} verified {int(verified)}", flush=True)
    os._exit(0)  # some of these libraries crash as they are unloaded
