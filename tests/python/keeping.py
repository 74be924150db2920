"""A daemon whose memory a holder has while the daemon is away."""

import contextlib
import os
import pathlib
import signal

from conftest import Daemon


def holder_of(daemon):
    """The process that holds that daemon's memory; None where there is none."""
    wanted = f"{daemon.run_dir}/holder.sock"
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_text().split("\0")
            if words[0].endswith("onecopy-holder") and wanted in words:
                return int(process.name)
    return None


@contextlib.contextmanager
def kept_daemon(folder, name="lone", arguments=()):
    """One of those; its holder ends with it."""
    daemon = Daemon(name, folder, ["--holder", "own", *arguments])
    try:
        yield daemon
    finally:
        daemon.end()
        holder = holder_of(daemon)
        if holder:
            os.kill(holder, signal.SIGKILL)


def restart(daemon):
    """Killed, and started again at the same address."""
    daemon.kill()
    daemon.start_again()
