"""What `cmake --install` leaves behind works: programs, service, and the library for a program of somebody else."""

import pathlib
import re
import shutil
import subprocess
import tempfile

from checks.context import CannotRun, lines_of

NAME = "an installation is complete, and another project can build on it"

_PROGRAMS = ("onecopyd", "onecopy", "onecopy-bench")


def run(context):
    build = context.finished_build()
    with tempfile.TemporaryDirectory(prefix="onecopy-installed.") as place:
        prefix = pathlib.Path(place, "prefix")
        install = ["cmake", "--install", str(build), "--prefix", str(prefix)]
        return (_after_quickstart(context, build, pathlib.Path(place)) or
                lines_of(install, place) or _programs(build, prefix, place) or
                _service(build, prefix, place, install) or _library(context, build, prefix, pathlib.Path(place)))


def _after_quickstart(context, build, place):
    """Where only what deploy/quickstart builds has been built, its programs, service and library can be installed."""
    if not (build / "build.ninja").exists():
        raise CannotRun("it needs a build that can be built on")
    command = re.search(r"cmake --build .* --target (.+)", (context.root / "deploy/quickstart").read_text())
    made = [path for pattern in ("bin/onecopy*", "lib/libonecopy_client.so*", "deploy/config.toml*")
            for path in build.glob(pattern)]
    kept = place / "kept"
    for path in made:
        aside = kept / path.relative_to(build)
        aside.parent.mkdir(parents=True, exist_ok=True)
        path.rename(aside)
    try:
        findings = lines_of(["cmake", "--build", str(build), "--target", *command[1].split()], place)
        prefix = place / "after-quickstart"
        findings = findings or lines_of(["cmake", "--install", str(build), "--prefix", str(prefix)], place)
        expected = ("bin/onecopyd", "bin/onecopy", "libexec/onecopy-holder", "etc/onecopy/config.toml", "include/onecopy/client.h")
        findings = findings or [f"after deploy/quickstart, {name} is not installed"
                                for name in expected if not (prefix / name).exists()]
    finally:
        for path in made:
            aside = kept / path.relative_to(build)
            path.unlink(missing_ok=True)
            aside.rename(path)
    return findings


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
    pages = ("man1/onecopy.1", "man1/onecopy-bench.1", "man5/onecopy.toml.5", "man8/onecopyd.8")
    expected = [f"share/man/{page}" for page in pages]
    expected += ["share/bash-completion/completions/onecopy", "share/zsh/vendor-completions/_onecopy",
                 "share/fish/vendor_completions.d/onecopy.fish", "share/onecopy/proto/onecopy/v1/arrival.proto"]
    return findings + [f"{name} is not installed" for name in expected if not (prefix / name).exists()]


def _service(build, prefix, place, install):
    if not (build / "bin/onecopyd").exists():
        return []
    units = "".join((prefix / "lib/systemd/system" / name).read_text()
                    for name in ("onecopyd.service", "onecopy-holder.service"))
    findings = [f"a unit names {path}, which is not installed"
                for path in re.findall(r"(?<=[ =])/\S+/(?:onecopyd|onecopy-holder|config\.toml)(?=\s)", units)
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
    examples = shutil.copytree(context.root / "client/examples", place / "examples")
    for sources, built in ((project, made), (examples, place / "made-examples")):
        findings = findings or lines_of(["cmake", "-G", "Ninja", "-S", str(sources), "-B", str(built),
                                         f"-DCMAKE_PREFIX_PATH={prefix}"], place)
        findings = findings or lines_of(["cmake", "--build", str(built)], place)
    findings = findings or _runs(made / "consumer", place) or _ends_with_reason(made / "consumer", place)

    pc = next(prefix.rglob("onecopy-client.pc"), None)
    if pc is None:
        return [*findings, "onecopy-client.pc is not installed"]
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", str(pc)], capture_output=True, text=True, check=True)
    by_hand = place / "by-hand"
    findings += lines_of(["c++", "-std=c++20", "-Werror", str(project / "main.cc"), "-o", str(by_hand),
                          *flags.stdout.split(), f"-Wl,-rpath,{pc.parent.parent}"], place)
    return findings or _runs(by_hand, place) or _readme(context, place, flags.stdout.split()) or _below_cxx20(
        place, headers, flags.stdout.split())


def _readme(context, place, flags):
    """README.md's pieces of C++ compile without a warning, in a function that has what they name."""
    blocks = re.findall(r"(?:^    .*\n)+", (context.root / "README.md").read_text(), re.MULTILINE)
    pieces = [block for block in blocks if "onecopy::" in block and ";" in block]
    if len(pieces) != 2:
        return [f"README.md has {len(pieces)} pieces of C++; the first should connect, the second make a request"]
    source = place / "readme.cc"
    source.write_text("#include <onecopy/client.h>\n#include <iostream>\n"
                      "int Run(void* device_pointer, uint64_t bytes) {\n" + "".join(pieces) +
                      "    return static_cast<int>(request.ranges.size());\n}\n")
    return lines_of(["c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", str(source), *flags], place)


def _below_cxx20(place, headers, flags):
    """An older language is refused by each header in words that say what to do."""
    findings = []
    for name in headers:
        source = place / "older.cc"
        source.write_text(f"#include <onecopy/{name}>\n")
        done = subprocess.run(["c++", "-std=c++17", "-fsyntax-only", str(source), *flags], capture_output=True, text=True,
                              check=False)
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        if done.returncode == 0 or not errors or "onecopy needs C++20" not in errors[0]:
            findings.append(f"{name} as C++17 begins with: {errors[:1]}")
    return findings


def _ends_with_reason(program, place):
    """A value that is not there ends the program, and says why there is none."""
    done = subprocess.run([str(program), str(place / "nowhere"), "use"], capture_output=True, text=True, check=False)
    last = done.stderr.rstrip().rpartition("\n")[2]
    if done.returncode < 0 and "DAEMON_UNREACHABLE" in last and "Result" in last:
        return []
    return [f"using a client that is not there ended with status {done.returncode} and: {done.stderr}"]


def _runs(program, place):
    """The consumer asks for a daemon where none is, and prints the reason."""
    done = subprocess.run([str(program), str(place / "nowhere")], capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout == "DAEMON_UNREACHABLE\n":
        return []
    return [f"{program.name} ended with status {done.returncode} and said: {done.stdout}{done.stderr}"]
