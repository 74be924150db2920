"""What every check is given."""

import os
import pathlib
import shutil
import subprocess


class CannotRun(Exception):
    """Why a check cannot run here."""


class Context:
    """`root`: the sources; `build`: a finished build of them, or None; `logs`: a folder for output."""

    def __init__(self, root, build, logs, env):
        self.root = pathlib.Path(root)
        self.build = build
        self.logs = logs
        self.env = env
        self.cache = self.root / "build" / "checks-cache"

    def files(self, *endings):
        """The repository's files, relative to its root, new ones that git does not ignore included. Sorted."""
        if shutil.which("git") and (self.root / ".git").exists():
            # The checkout may belong to somebody else than the user who tests it.
            command = ["git", "-c", f"safe.directory={self.root}", "ls-files", "-z", "--cached", "--others",
                       "--exclude-standard"]
            listed = subprocess.run(command, cwd=self.root, capture_output=True, check=True,
                                    text=True).stdout.split("\0")
            names = {name for name in listed if name and (self.root / name).is_file()}
        else:
            names = set()
            for folder, folders, files in os.walk(self.root):
                folders[:] = [name for name in folders if name not in ("build", ".git", ".cache")]
                names |= {str(pathlib.Path(folder, name).relative_to(self.root)) for name in files}
        return sorted(name for name in names if not endings or name.endswith(endings))

    def finished_build(self):
        """The build's folder, or CannotRun."""
        if self.build is None:
            raise CannotRun("it needs a Release build of these sources")
        return self.build


def tool(*names):
    """The first of these programs that is installed, or CannotRun."""
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    raise CannotRun(f"{names[0]} is not installed; `deploy/bootstrap --for checks` installs it")


def lines_of(command, cwd, env=None):
    """Runs a tool that prints findings. Returns them, or nothing when it is content."""
    done = subprocess.run(command, cwd=cwd, env=env, text=True, errors="replace", stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode == 0:
        return []
    return done.stdout.splitlines() or [f"{command[0]} ended with status {done.returncode} and said nothing"]
