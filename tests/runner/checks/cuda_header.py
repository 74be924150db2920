"""What includes cuda.h is told where it lies: a compiler may find another one by itself, on some machines only."""

import json
import re
import subprocess

from checks.context import tool

NAME = "each source that includes cuda.h is compiled with its folder"

_INCLUDE = re.compile(r"^ONECOPY_CUDA_INCLUDE:PATH=(.*)$", re.MULTILINE)


def run(context):
    build = context.finished_build()
    ninja = tool("ninja")

    def ask(what):
        return subprocess.run([ninja, "-C", build, "-t", what], text=True, check=True, capture_output=True).stdout

    folder = _INCLUDE.search((build / "CMakeCache.txt").read_text()).group(1)
    users = including(ask("deps"), "cuda.h")
    if not users:
        return ["nothing includes cuda.h: this check looks for it in vain"]
    return [f"{each['output']}: compiled without {folder}; link onecopy_transport_shim"
            for each in json.loads(ask("compdb")) if each["output"] in users and folder not in each["command"]]


def including(deps, header):
    """The objects that were made of a toolkit's header of that name, by what `ninja -t deps` prints.

    Its path may be relative: ccache writes what lies under the sources so, and build/deps/cuda does.
    """
    users, current = set(), None
    for line in deps.splitlines():
        if line and not line[0].isspace():
            current = line.partition(":")[0]
        elif line.rstrip().endswith(f"/include/{header}"):
            users.add(current)
    return users
