"""The suite of the Debian packages: builds two versions of them, looks at what is in them, and installs, upgrades, downgrades
and removes them in a bare system that is thrown away (tests/packages).

Debian's or Ubuntu's mirror must be in reach, and for the wheel PyPI. What was built is kept in build/package and in ccache.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import report

_PACKAGES = ("onecopy", "libonecopy-dev")
_OPENED_AT_RUN_TIME = ("libcuda1", "libucx0", "rdma-core")  # recommended, and nothing else
_SCENARIOS = ("life.sh", "hand_made.sh", "service.sh")
_LOG_LINES = 60


class _Failed(Exception):
    """What failed, and the last lines of what it said."""

    def __init__(self, what, said):
        super().__init__(what)
        self.lines = said.splitlines()[-_LOG_LINES:]


def run(root, logs, required, outcome):
    """Runs the suite. `logs` is the folder for output."""
    if os.geteuid() != 0:
        outcome.case(report.FAIL if required else report.SKIP, "packages", "it takes root to make a system of its own")
        return
    packages = root / "build" / "packages-test"
    shutil.rmtree(packages, ignore_errors=True)
    # The newer one first, so that the build is of the project's own version afterwards.
    for name, version, options in (("newer", _next(_version(root)), ["--no-wheel"]), ("older", _version(root), [])):
        command = [root / "deploy/package", "--out", packages / name, "--version", version, *options]
        if not _case(outcome, f"packages: {version} is built", command, logs / f"build-{name}.log"):
            return
    older = packages / "older"
    for name, look in (("lintian finds no error", _lintian), ("vendors' libraries are recommended, not needed", _dependencies),
                       ("the wheel lies beside them", _wheel), ("the packages have the unit and the files of this checkout", _files),
                       ("another project builds with libonecopy-dev", _development)):
        try:
            findings = look(root, older)
        except _Failed as failure:
            findings = [str(failure), *failure.lines]
        outcome.case(report.FAIL if findings else report.OK, f"packages: {name}", detail=findings)
    for script in _SCENARIOS:
        _scenario(root, packages, script, logs / f"{script}.log", outcome)


def _version(root):
    return re.search(r"project\(onecopy VERSION ([0-9.]+)", (root / "CMakeLists.txt").read_text())[1]


def _next(version):
    *first, last = version.split(".")
    return ".".join([*first, str(int(last) + 1)])


def _case(outcome, name, command, log):
    """Runs the command as a case of its own. Whether it succeeded."""
    with log.open("w") as output:
        status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                check=False).returncode
    lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:] if status != 0 else []
    outcome.case(report.FAIL if status != 0 else report.OK, name, detail=lines)
    return status == 0


def _output(command, **options):
    """What the command prints; raises _Failed where it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, **options)
    if done.returncode != 0:
        raise _Failed(f"{pathlib.Path(command[0]).name} ended with status {done.returncode}", done.stdout)
    return done.stdout


def _the(folder, pattern):
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise _Failed(f"{folder.name} has {len(found)} files {pattern}, and there should be one", "")
    return found[0]


def _lintian(_root, folder):
    said = _output(["lintian", "--allow-root", "--no-cfg", "--fail-on", "none", _the(folder, "*.changes")])
    return [line for line in said.splitlines() if line.startswith("E:")]


def _dependencies(_root, folder):
    package = _the(folder, "onecopy_*.deb")
    needed, recommended = (_output(["dpkg-deb", "-f", package, field]) for field in ("Depends", "Recommends"))
    findings = [f"{name} is not recommended: {recommended}" for name in _OPENED_AT_RUN_TIME if name not in recommended]
    findings += [f"{name} is needed: {needed}" for name in (*_OPENED_AT_RUN_TIME, "libibverbs1") if name in needed]
    if "libgrpc++" not in needed:
        findings.append(f"dpkg-shlibdeps has not found gRPC: {needed}")
    return findings


def _wheel(_root, folder):
    return [] if list(folder.glob("onecopy-*.whl")) else [f"there is no wheel in {folder}"]


def _files(root, folder):
    with tempfile.TemporaryDirectory(prefix="onecopy-packages.") as place:
        _output(["dpkg-deb", "-x", _the(folder, "onecopy_*.deb"), place])
        alike = {"lib/systemd/system/onecopyd.service": "deploy/onecopyd.service",
                 "lib/systemd/system/onecopy-holder.service": "deploy/onecopy-holder.service",
                 "usr/lib/sysusers.d/onecopy.conf": "deploy/onecopy.sysusers.conf",
                 "usr/lib/tmpfiles.d/onecopy.conf": "deploy/onecopy.tmpfiles.conf",
                 "lib/udev/rules.d/40-onecopy.rules": "deploy/onecopy.rules",
                 "etc/onecopy/config.toml": "deploy/package.d/config.toml",
                 "etc/needrestart/conf.d/onecopy.conf": "deploy/package.d/needrestart.conf"}
        findings = []
        for packed, source in alike.items():
            found = next((path for path in (pathlib.Path(place, packed), pathlib.Path(place, "usr", packed)) if path.exists()), None)
            if found is None or found.read_bytes() != (root / source).read_bytes():
                findings.append(f"{packed} is not {source}")
        # needrestart evaluates it as Perl.
        said = _output(["perl", "-e", 'our %nrconf; do "./deploy/package.d/needrestart.conf"; die $@ if $@; print keys %{$nrconf{override_rc}}'],
                       cwd=root)
        findings += [f"needrestart would not know of {name}: {said}"
                     for name in ("onecopyd", "onecopy-holder") if name not in said]
        return findings


def _development(root, folder):
    """Its headers, library, CMake package, pkg-config file and protocol files are enough for others."""
    with tempfile.TemporaryDirectory(prefix="onecopy-packages.") as name:
        place = pathlib.Path(name)
        _output(["dpkg-deb", "-x", _the(folder, "libonecopy-dev_*.deb"), place / "installed"])
        prefix = place / "installed/usr"
        project = shutil.copytree(root / "tests/consumer", place / "consumer")
        headers = sorted(path.name for path in (prefix / "include/onecopy").glob("*.h"))
        (project / "every_header.h").write_text("".join(f"#include <onecopy/{name}>\n" for name in headers))
        _output(["cmake", "-G", "Ninja", "-S", project, "-B", place / "made", f"-DCMAKE_PREFIX_PATH={prefix}"])
        _output(["cmake", "--build", place / "made"])
        said = subprocess.run([place / "made/consumer", place / "nowhere"], capture_output=True, text=True, check=False).stdout
        findings = [] if said == "DAEMON_UNREACHABLE\n" else [f"the program that was built says: {said}"]
        config = next(prefix.rglob("onecopy-client.pc"))
        flags = _output(["pkg-config", "--cflags", "--libs", config]).split()
        _output(["c++", "-std=c++20", "-Werror", project / "main.cc", "-o", place / "by-hand", *flags])
        protos = prefix / "share/onecopy/proto"
        files = sorted(protos.rglob("*.proto"))
        if "arrival.proto" not in [file.name for file in files]:
            findings.append("arrival.proto is missing")
        _output(["protoc", f"-I{protos}", f"-I{root / 'build/deps/googleapis'}", f"--descriptor_set_out={place / 'set'}", *files])
        return findings


def _scenario(root, packages, script, log, outcome):
    """Runs the script in a bare system; each of its steps is a case."""
    command = [root / "tests/packages/run_in_root", root / "build/packages-root", packages, script]
    told = 0
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace")
        for line in process.stdout:
            verdict, _, rest = line.rstrip("\n").partition(" ")
            if verdict == "ok":
                outcome.case(report.OK, f"packages: {rest}")
            elif verdict == "FAIL":
                name, _, why = rest.partition(": ")
                outcome.case(report.FAIL, f"packages: {name}", detail=why.rstrip("|").split("|"))
            else:
                continue
            told += 1
    status = process.wait()
    if status != 0 and not told:
        outcome.case(report.FAIL, f"packages: {script}", f"it ended with status {status}",
                     log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
