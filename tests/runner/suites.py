"""Which suites there are, which of them are asked for, and the programs of each."""

import dataclasses
import json
import os
import pathlib

# Those that the documentation names, quick and basic ones first; a build may have fewer, and more.
KNOWN = ("unit", "conformance", "cluster", "faults", "fuzz", "rdma", "gpu", "prometheus")
CHECKS = "checks"
CHECKED = "onecopy_checked"  # CMake's target of what the checks need of a build
PYTHON = ("python", "python-matrix")  # of the Python package, tested by pytest
PACKAGES = "packages"  # of the Debian packages, in a bare system
KUBERNETES = "kubernetes"  # of the manifests
ONLY_NAMED = (*PYTHON, PACKAGES, KUBERNETES)
IN_GUEST = ("rdma",)  # those whose programs run in the guest that has RDMA devices

_DEFAULT_TIME_LIMIT = 300


@dataclasses.dataclass(frozen=True)
class Program:
    path: pathlib.Path
    target: str = ""  # CMake's; empty where the program was found by its place alone
    # Beside itself: "grpc" in its process, "programs" to start, "kernel-stable" in the guest; "time" if it mostly waits.
    needs: tuple = ()
    time_limit: int = _DEFAULT_TIME_LIMIT  # seconds

    @property
    def kernel(self):
        """The guest's kernel that it has to have; empty: whichever the others run on."""
        return next((need.removeprefix("kernel-") for need in self.needs if need.startswith("kernel-")), "")

    @property
    def waits(self):
        return "time" in self.needs

    def skip_reason(self, preset):
        """Why it cannot run under the preset, or nothing."""
        if preset == "tsan" and {"grpc", "programs"} & set(self.needs):
            what = "links" if "grpc" in self.needs else "starts programs that link"
            return f"it {what} the distribution's gRPC, which is built without ThreadSanitizer"
        return ""


class UnknownSuite(Exception):
    pass


def load(build, prebuilt):
    """The suites of a build as {name: [Program…]}: from the manifest that CMake wrote, else by their places.

    A prebuilt folder may have a part of the programs; elsewhere, one that the manifest names must be there.
    """
    tests = build / "bin" / "tests"
    manifest = tests / "manifest.json"
    found = {}
    if manifest.exists():
        for entry in json.loads(manifest.read_text()):
            program = Program(tests / entry["suite"] / entry["name"], entry["target"], tuple(entry["needs"]),
                              entry["time_limit"] or _DEFAULT_TIME_LIMIT)
            if program.path.exists() or not prebuilt:
                found.setdefault(entry["suite"], []).append(program)
    else:
        for path in sorted(tests.glob("*/*")):
            if path.is_file() and os.access(path, os.X_OK):
                found.setdefault(path.parent.name, []).append(Program(path))
    return found


def select(found, named, required, checks_too):
    """The names of the suites to run, in order: those named, else all; with those that are required.

    `checks_too` says whether "all" has the checks; those of ONLY_NAMED it never has. Raises UnknownSuite.
    """
    known = sorted({*found, *KNOWN, *ONLY_NAMED, CHECKS}, key=_order)
    for name in [*named, *required]:
        if name not in known:
            raise UnknownSuite(f"no suite “{name}”; there are {', '.join(known)}")
    wanted = {*(named or set(known) - set(ONLY_NAMED) - (set() if checks_too else {CHECKS})), *required}
    return sorted(wanted, key=_order)


def _order(name):
    return (KNOWN.index(name) if name in KNOWN else len(KNOWN) + (name == CHECKS), name)
