"""The processes of a program that was started in a session of its own: which are left, and their end."""

import os
import pathlib
import signal
import time

_GRACE_SECONDS = 5  # for processes to end by themselves


def members(session):
    """The living processes of the session, as {pid: name}."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text(errors="replace")
        except OSError:  # it has ended meanwhile
            continue
        name = text[text.index("(") + 1:text.rindex(")")]
        state, _, _, session_of_it = text[text.rindex(")") + 2:].split()[:4]
        if int(session_of_it) == session and state not in "ZX":
            found[int(stat.parent.name)] = name
    return found


def stragglers(session):
    """What is still alive of the session after the grace period, as {pid: name}."""
    deadline = time.monotonic() + _GRACE_SECONDS
    while True:
        alive = members(session)
        if not alive or time.monotonic() >= deadline:
            return alive
        time.sleep(0.05)


def end(session):
    """Ends every process of the session, by SIGTERM, then by SIGKILL. Its leader must still be reaped."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        alive = members(session)
        for pid in alive:
            try:
                os.kill(pid, number)
            except ProcessLookupError:  # it has ended meanwhile
                pass
        if not alive or not stragglers(session):
            return
