"""Slurm's prolog and epilog (deploy/slurm), beside a real daemon and as slurmd runs them, without Slurm."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

_USER, _OTHER = 65531, 65530


class _Daemon:
    def __init__(self, place, binaries, scripts):
        self._scripts = scripts
        self._place = place
        self._binaries = binaries
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
        with self.started(name, **variables) as process:
            out, err = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def started(self, name, **variables):
        return subprocess.Popen([self._scripts / name], env=dict(self.environment, **variables), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def instead(self, name, lines):
        """A PATH on which the program is this shell script. In it, $onecopy is the real one."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self._place))
        (folder / name).write_text(f"#!/bin/bash\nonecopy='{self._binaries}/onecopy'\n{lines}\n")
        (folder / name).chmod(0o755)
        return f"{folder}:{self.environment['PATH']}"

    def only(self, *names):
        """A PATH that has only these programs."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self._place))
        for name in names:
            (folder / name).symlink_to(shutil.which(name, path=self.environment["PATH"]))
        return str(folder)

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
            judge("Slurm: a job's end removes views, and buffers that others remove meanwhile", list(_views_and_others(daemon)))
            judge("Slurm: a job's end removes buffers of this node's owners only", list(_owners(daemon)))
            judge("Slurm: a job's end fails where a buffer stays or pgrep does not answer", list(_failures(daemon)))
        finally:
            daemon.end()


def _prolog(daemon):
    done = daemon.script("prolog")
    if done.returncode != 0:
        yield f"it fails: {done.stderr}"
    daemon.onecopy("node", "drain")
    done = daemon.script("prolog")
    if done.returncode != 1 or "node undrain" not in done.stderr or "systemctl restart" not in done.stderr:
        yield f"of a drained node: status {done.returncode}: {done.stderr}"
    with daemon.started("prolog", ONECOPY_PROLOG_WAIT="20") as waiting:
        time.sleep(1.5)
        if waiting.poll() is not None:
            yield f"of a drained node, it does not wait: status {waiting.returncode}"
        daemon.onecopy("node", "undrain")
        _, err = waiting.communicate()
    if waiting.returncode != 0:
        yield f"of a node that is drained for a moment: status {waiting.returncode}: {err}"
    done = daemon.script("prolog", ONECOPY_PROLOG_WAIT="soon")
    if done.returncode != 1 or "ONECOPY_PROLOG_WAIT" not in done.stderr:
        yield f"with text in place of the limit: status {done.returncode}: {done.stderr}"
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


def _make(daemon, *names):
    for name in names:
        daemon.onecopy("buffer", "create", name, "--size", "4096", "--memory", "host", uid=_USER)


def _clear(daemon):
    for each in daemon.onecopy("buffer", "ls"):
        if each["view_of"] is None:
            daemon.onecopy("buffer", "rm", "--force", each["id"])


def _views_and_others(daemon):
    _clear(daemon)
    _make(daemon, "base", "last")
    for view, offset in (("aaa", 0), ("view", 1024), ("zzz", 2048)):
        daemon.onecopy("buffer", "view", view, f"base@{offset}+1024", uid=_USER)
    done = daemon.script("epilog", SLURM_JOB_UID=str(_USER))
    if done.returncode != 0 or done.stderr or daemon.buffers():
        yield f"of a buffer with views: status {done.returncode}, {daemon.buffers()} stay: {done.stderr}"

    _make(daemon, "first", "second", "third")
    path = daemon.instead("onecopy", """if [[ "$*" != *"buffer ls"* ]]; then exec "$onecopy" "$@"; fi
"$onecopy" "$@" || exit
"$onecopy" --quiet buffer rm --force first >&2""")
    done = daemon.script("epilog", SLURM_JOB_UID=str(_USER), PATH=path)
    if done.returncode != 0 or done.stderr or daemon.buffers():
        yield f"of a buffer that goes after it was listed: status {done.returncode}, {daemon.buffers()} stay: {done.stderr}"

    _make(daemon, *(f"many-{number}" for number in range(20)))
    several = [daemon.started("epilog", SLURM_JOB_UID=str(_USER)) for _ in range(3)]
    for process in several:
        _, err = process.communicate()
        if process.returncode != 0 or err:
            yield f"of several at once, one ends with status {process.returncode}: {err}"
    if daemon.buffers():
        yield f"after several at once, {daemon.buffers()} stay"


def _owners(daemon):
    _clear(daemon)
    _make(daemon, "container", "certificate", "elsewhere", "longer")
    owners = {"container": f"{_USER}+pid4026532567@gpu-01", "certificate": f"{_USER}+cert@gpu-01", "elsewhere": f"{_USER}@gpu-02",
              "longer": f"{_USER}@gpu-011"}
    listed = daemon.onecopy("buffer", "ls")
    for each in listed:
        each["owner"] = owners[each["name"]]
    path = daemon.instead("onecopy", f"""if [[ "$*" != *"buffer ls"* ]]; then exec "$onecopy" "$@"; fi
echo '{json.dumps(listed)}'""")
    done = daemon.script("epilog", SLURM_JOB_UID=str(_USER), PATH=path)
    if done.returncode != 0 or daemon.buffers() != {"certificate", "elsewhere", "longer"}:
        yield f"status {done.returncode}, {daemon.buffers()} stay: {done.stderr}"


def _failures(daemon):
    _clear(daemon)
    _make(daemon, "first", "second", "third")
    kept = next(each["id"] for each in daemon.onecopy("buffer", "ls"))
    everything = daemon.buffers()
    for what, path in (("missing", daemon.only("onecopy", "python3", "hostname")), ("failing", daemon.instead("pgrep", "exit 3"))):
        done = daemon.script("epilog", SLURM_JOB_UID=str(_USER), PATH=path)
        if done.returncode != 1 or "pgrep ended with status" not in done.stderr or daemon.buffers() != everything:
            yield f"with a {what} pgrep: status {done.returncode}, {daemon.buffers()} stay: {done.stderr}"
    path = daemon.instead("onecopy", f"""if [[ "$*" != *"buffer rm"*" {kept}" ]]; then exec "$onecopy" "$@"; fi
echo 'onecopy: not now [INTERNAL]' >&2
exit 1""")
    done = daemon.script("epilog", SLURM_JOB_UID=str(_USER), PATH=path)
    if done.returncode != 1 or "not now" not in done.stderr or "stay on" not in done.stderr or len(daemon.buffers()) != 1:
        yield f"of a buffer that cannot be removed: status {done.returncode}, {daemon.buffers()} stay: {done.stderr}"
