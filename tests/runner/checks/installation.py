"""What `cmake --install` leaves behind works: programs, service, and the library for a program of somebody else."""

import pathlib
import re
import shutil
import subprocess
import tempfile

from checks.context import lines_of

NAME = "an installation is complete, and another project can build on it"

_PROGRAMS = ("onecopyd", "onecopy", "onecopy-bench")


def run(context):
    build = context.finished_build()
    with tempfile.TemporaryDirectory(prefix="onecopy-installed.") as place:
        prefix = pathlib.Path(place, "prefix")
        install = ["cmake", "--install", str(build), "--prefix", str(prefix)]
        return (lines_of(install, place) or _programs(build, prefix, place) or
                _service(build, prefix, place, install) or _library(context, build, prefix, pathlib.Path(place)))


def _programs(build, prefix, place):
    findings = []
    for name in _PROGRAMS:
        if not (build / "bin" / name).exists():
            continue
        installed = prefix / "bin" / name
        if not installed.exists():
            findings.append(f"{name} is not installed")
        else:
            findings += lines_of([str(installed), "--version"], place)
    return findings


def _service(build, prefix, place, install):
    if not (build / "bin/onecopyd").exists():
        return []
    unit = (prefix / "lib/systemd/system/onecopyd.service").read_text()
    findings = [f"the unit names {path}, which is not installed"
                for path in re.findall(r"(?<=[ =])/\S+/(?:onecopyd|config\.toml)(?=\s)", unit)
                if not pathlib.Path(path).is_relative_to(prefix) or not pathlib.Path(path).exists()]
    config = prefix / "etc/onecopy/config.toml"
    findings += lines_of([str(prefix / "bin/onecopyd"), "config", "check", str(config)], place)
    config.write_text("# an administrator's own\n")
    findings += lines_of(install, place)
    if config.read_text() != "# an administrator's own\n":
        findings.append("a second installation overwrote config.toml")
    return findings


def _library(context, build, prefix, place):
    if not (build / "lib/libonecopy_client.so").exists():
        return []
    # A copy: beside its original, it could find our headers by accident.
    project = shutil.copytree(context.root / "tests/consumer", place / "consumer")
    headers = sorted(path.name for path in (prefix / "include/onecopy").glob("*.h"))
    (project / "every_header.h").write_text("".join(f"#include <onecopy/{name}>\n" for name in headers))
    findings = []
    if not headers:
        findings.append("no public header is installed")
    made = place / "made"
    findings += lines_of(["cmake", "-G", "Ninja", "-S", str(project), "-B", str(made), f"-DCMAKE_PREFIX_PATH={prefix}"], place)
    findings = findings or lines_of(["cmake", "--build", str(made)], place)
    findings = findings or _runs(made / "consumer", place)

    pc = next(prefix.rglob("onecopy-client.pc"), None)
    if pc is None:
        return [*findings, "onecopy-client.pc is not installed"]
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", str(pc)], capture_output=True, text=True, check=True)
    by_hand = place / "by-hand"
    findings += lines_of(["c++", "-std=c++20", "-Werror", str(project / "main.cc"), "-o", str(by_hand),
                          *flags.stdout.split(), f"-Wl,-rpath,{pc.parent.parent}"], place)
    return findings or _runs(by_hand, place)


def _runs(program, place):
    """The consumer asks for a daemon where none is, and prints the reason."""
    done = subprocess.run([str(program), str(place / "nowhere")], capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout == "DAEMON_UNREACHABLE\n":
        return []
    return [f"{program.name} ended with status {done.returncode} and said: {done.stdout}{done.stderr}"]
