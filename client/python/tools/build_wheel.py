"""Builds the wheel; client/python/build-wheel is the door to this."""

import argparse
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import rename
import weaken

_PACKAGE = pathlib.Path(__file__).resolve().parents[1]
_ROOT = _PACKAGE.parents[1]
_REQUIREMENTS = _PACKAGE / "tools" / "requirements.txt"


def _run(what, command, log, **options):
    """Runs the command into the log; ends with what it said where it fails."""
    with log.open("w") as output:
        status = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False, **options).returncode
    if status != 0:
        sys.stderr.write("".join(log.read_text(errors="replace").splitlines(keepends=True)[-60:]))
        sys.exit(f"build-wheel: {what} failed (status {status}); all of it is in {log}")


def _tools(place):
    """A virtual environment with what builds, made where it is missing or the list has changed. Its bin folder."""
    stamp = place / "stamp"
    wanted = hashlib.sha256(_REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(place, ignore_errors=True)
        log = place.parent / "tools.log"
        _run("making a virtual environment", [sys.executable, "-m", "venv", place], log)
        _run("fetching the tools from PyPI",
             [place / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check", "--require-hashes",
              "--only-binary", ":all:", "-r", _REQUIREMENTS], log)
        stamp.write_text(wanted)
    return place / "bin"


def _the_wheel(folder):
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        sys.exit(f"build-wheel: {folder} has {len(wheels)} wheels, and there should be one")
    return wheels[0]


def build(out, work):
    """Returns the wheel, in `out`. `work` keeps what another build can use."""
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as lock:  # one at a time
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _build(out, work)


def _build(out, work):
    tools = _tools(work / "tools")
    env = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", PYTHONDONTWRITEBYTECODE="1")
    with tempfile.TemporaryDirectory(dir=work) as scratch:
        raw, grafted, final = (pathlib.Path(scratch) / name for name in ("raw", "grafted", "final"))
        _run("building", [tools / "python", "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps",
                          "--no-build-isolation", "--wheel-dir", raw, _PACKAGE], work / "build.log", env=env)
        # What the module and the program need beyond the C library goes into the wheel, under names of its own. The
        # tag is the lowest that the symbols allow.
        _run("grafting", [tools / "auditwheel", "repair", "--wheel-dir", grafted, _the_wheel(raw)],
             work / "repair.log", env=env)
        _run("unpacking", [tools / "wheel", "unpack", "--dest", scratch, _the_wheel(grafted)], work / "unpack.log")
        tree, = pathlib.Path(scratch).glob("onecopy-*")
        grafted, users = rename.files(tree)
        for binary in [*grafted, *users]:
            weaken.weaken(binary)
        rename.rename_all(grafted, users)
        final.mkdir()
        _run("packing", [tools / "wheel", "pack", "--dest-dir", final, tree], work / "pack.log")
        out.mkdir(parents=True, exist_ok=True)
        for old in out.glob("onecopy-*.whl"):
            old.unlink()
        return pathlib.Path(shutil.move(_the_wheel(final), out))


def main():
    parser = argparse.ArgumentParser(
        prog="build-wheel",
        description="Builds the wheel of the Python package, for all Pythons from 3.11 on, and prints where it is.")
    parser.add_argument("--out", type=pathlib.Path, default=_ROOT / "build" / "python" / "dist",
                        help="the folder that it goes to (default: build/python/dist)")
    parser.add_argument("--work", type=pathlib.Path, default=_ROOT / "build" / "python",
                        help="the folder for the tools and logs (default: build/python)")
    arguments = parser.parse_args()
    print(build(arguments.out.resolve(), arguments.work.resolve()))


if __name__ == "__main__":
    main()
