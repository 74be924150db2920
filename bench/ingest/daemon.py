"""An onecopyd of the bench's own, on loopback and in a folder of its own."""

import contextlib
import os
import subprocess
import tempfile


class Daemon:
    def __init__(self, run_dir, pid):
        self.run_dir = run_dir
        self.pid = pid  # 0: not known


@contextlib.contextmanager
def started(program):
    """Serves until the end of the block; an error tells the end of its log."""
    with tempfile.TemporaryDirectory(prefix="onecopy-ingest.") as folder:
        run_dir, log = os.path.join(folder, "run"), os.path.join(folder, "log")
        with open(log, "w", encoding="utf-8") as errors:
            process = subprocess.Popen(
                [program, "--name", "ingest", "--listen", "127.0.0.1:0", "--lanes", "127.0.0.1:0",
                 "--run-dir", run_dir],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)
            try:
                if not process.stdout.readline().startswith("ready "):
                    with open(log, encoding="utf-8") as said:
                        raise RuntimeError(f"{program} does not serve: {said.read()[-2000:]}")
                yield Daemon(run_dir, process.pid)
            finally:
                process.terminate()
                try:
                    process.wait(timeout=30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                process.stdout.close()
