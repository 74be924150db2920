"""Slurm's prolog and epilog (deploy/slurm), beside a real daemon and as slurmd runs them, without Slurm."""

import json
import os
import pathlib
import subprocess
import tempfile

_USER, _OTHER = 65531, 65530


class _Daemon:
    def __init__(self, place, binaries, scripts):
        self._scripts = scripts
        self.environment = dict(os.environ, ONECOPY_RUN_DIR=str(place / "run"), ONECOPY_PROLOG_WAIT="1",
                                PATH=f"{binaries}:{os.environ['PATH']}")
        self._process = subprocess.Popen(
            [binaries / "onecopyd", "--name", "gpu-01", "--listen", "127.0.0.1:0", "--lanes", "127.0.0.1:0", "--metrics-listen", "off",
             "--run-dir", place / "run"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.ready = self._process.stdout.readline()

    def end(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def script(self, name, **variables):
        return subprocess.run([self._scripts / name], env=dict(self.environment, **variables), capture_output=True, text=True, check=False)

    def onecopy(self, *words, uid=0):
        done = subprocess.run(["setpriv", f"--reuid={uid}", "--clear-groups", "onecopy", "--json", *words], env=self.environment,
                              capture_output=True, text=True, check=True)
        return json.loads(done.stdout) if done.stdout.strip() else None

    def buffers(self):
        return {each["name"] for each in self.onecopy("buffer", "ls")}


def run(root, binaries, judge):
    """Judges each case."""
    with tempfile.TemporaryDirectory(prefix="onecopy-slurm.") as name:
        place = pathlib.Path(name)
        place.chmod(0o755)
        daemon = _Daemon(place, binaries, root / "deploy/slurm")
        try:
            judge("Slurm: a job begins where the daemon serves, and not where it is drained or gone", list(_prolog(daemon)))
            daemon = _Daemon(place, binaries, root / "deploy/slurm")
            judge("Slurm: a job's end removes its user's buffers, and no other's", list(_epilog(daemon)))
        finally:
            daemon.end()


def _prolog(daemon):
    done = daemon.script("prolog")
    if done.returncode != 0:
        yield f"it fails: {done.stderr}"
    daemon.onecopy("node", "drain")
    done = daemon.script("prolog")
    if done.returncode != 1 or "undrain" not in done.stderr:
        yield f"of a drained node: status {done.returncode}: {done.stderr}"
    daemon.end()
    done = daemon.script("prolog")
    if done.returncode != 1 or "does not serve" not in done.stderr:
        yield f"without a daemon: status {done.returncode}: {done.stderr}"


def _epilog(daemon):
    for name, uid in (("mine", _USER), ("more", _USER), ("others", _OTHER), ("roots", 0)):
        daemon.onecopy("buffer", "create", name, "--size", "4096", "--memory", "host", uid=uid)
    everything = {"mine", "more", "others", "roots"}
    with subprocess.Popen(["setpriv", f"--reuid={_USER}", "--clear-groups", "cat"], stdin=subprocess.PIPE) as running:
        # It is that user's from the time it is cat.
        while pathlib.Path(f"/proc/{running.pid}/comm").read_text() != "cat\n":
            pass
        done = daemon.script("epilog", SLURM_JOB_UID=str(_USER))
        if done.returncode != 0 or daemon.buffers() != everything:
            yield f"while the user runs something: {daemon.buffers()} stay: {done.stderr}"
        running.stdin.close()
        running.wait()
    for uid, stays in ((0, everything), (_USER, {"others", "roots"})):
        done = daemon.script("epilog", SLURM_JOB_UID=str(uid))
        if done.returncode != 0 or daemon.buffers() != stays:
            yield f"after a job of uid {uid}: {daemon.buffers()} stay: {done.stderr}"
    if daemon.script("epilog").returncode == 0:
        yield "without SLURM_JOB_UID it succeeds"
