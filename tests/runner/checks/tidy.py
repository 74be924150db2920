"""clang-tidy over every source of ours that the build compiles, but those of tests, as .clang-tidy says.

A source that passed is not looked at again until it, a header of ours that it includes, its command, the
configuration or clang-tidy changes: the cache has a file per content hash.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

from checks.context import Context, lines_of, tool

NAME = "clang-tidy finds nothing"

_FINDING = re.compile(r":\d+:\d+: (?:error|warning): ")
_INCLUDE = re.compile(rb'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def run(context):
    clang_tidy = tool("clang-tidy")
    build = context.finished_build()
    cache = context.cache / "tidy"
    cache.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([clang_tidy, "--version"], capture_output=True, check=True).stdout
    hasher = Hasher(context.root, version + (context.root / ".clang-tidy").read_bytes())
    ours = {name for name in context.files(".cc") if not name.startswith("tests/")}

    def check(entry):
        passed = cache / hasher.of(entry)
        if passed.exists():
            return []
        findings = lines_of([clang_tidy, "-p", str(build), "--quiet",
                             "--extra-arg=-Wno-unknown-warning-option",  # gcc's, where gcc compiled
                             entry["file"]], context.root)
        if not findings:
            passed.touch()
        return findings

    entries = [entry for entry in json.loads((build / "compile_commands.json").read_text())
               if ours & {os.path.relpath(source, context.root) for source in sources_of(entry["file"])}]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        output = [line for findings in pool.map(check, entries) for line in findings]
    if not output:
        return []
    log = context.logs / "clang-tidy.log"
    log.write_text("\n".join(output) + "\n")
    # A finding in a header comes from every source that includes it.
    findings = dict.fromkeys(os.path.relpath(line, context.root) for line in output if _FINDING.search(line))
    return [*(findings or output), f"all of it: {log}"]


def sources_of(unit):
    """The sources that a unit of CMake's unity build includes; any other unit is its own source."""
    if not pathlib.PurePath(unit).name.startswith("unity_"):
        return [unit]
    return [name.decode() for name in _INCLUDE.findall(pathlib.Path(unit).read_bytes())]


class Hasher:
    """Content hashes of entries of compile_commands.json; `salt` is what else a result depends on."""

    def __init__(self, root, salt):
        self._root = pathlib.Path(root).resolve()
        self._salt = salt
        self._files = {}

    def of(self, entry):
        command = shlex.split(entry["command"])
        places = [pathlib.Path(entry["directory"], word[2:]) for word in command if word.startswith("-I")]
        places += [pathlib.Path(entry["directory"], after) for word, after in zip(command, command[1:])
                   if word == "-isystem"]
        digest = hashlib.sha256(self._salt + entry["command"].encode())
        pending, seen = [pathlib.Path(entry["file"]).resolve()], set()
        while pending:
            file = pending.pop()
            if file in seen:
                continue
            seen.add(file)
            content, includes = self._read(file)
            digest.update(f"{file}\n{len(content)}\n".encode() + content)
            for include in includes:
                for place in (file.parent, *places):
                    found = (place / include).resolve()
                    if found.is_relative_to(self._root) and found.is_file():
                        pending.append(found)
                        break
        return digest.hexdigest()

    def _read(self, file):
        if file not in self._files:
            content = file.read_bytes()
            self._files[file] = content, [name.decode() for name in _INCLUDE.findall(content)]
        return self._files[file]


def main(root, build):
    """Ahead of the suite, which then finds in the cache what has passed."""
    context = Context(root, pathlib.Path(build), pathlib.Path(build), dict(os.environ))
    findings = run(context)
    print("\n".join(findings) or "clang-tidy: nothing")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
