"""systemd's own judgement of the services and of their user."""

import pathlib
import subprocess
import sys
import tempfile

from checks.context import lines_of, tool

NAME = "systemd accepts the services, as sandboxed as they are meant to be"

_UNITS = ("onecopyd.service", "onecopy-holder.service")

_MOST_EXPOSED = 20  # tenths: `systemd-analyze security` says 0 for a service that may nothing, 100 for one that may all


def run(context):
    analyze, sysusers = tool("systemd-analyze"), tool("systemd-sysusers")
    with tempfile.TemporaryDirectory(prefix="onecopy-unit.") as place:
        units = [pathlib.Path(place, name) for name in _UNITS]
        for unit in units:
            # The programs need not be installed here for their units to be sound.
            text = (context.root / "deploy" / unit.name).read_text()
            for program in ("/usr/bin/onecopyd", "/usr/libexec/onecopy-holder"):
                text = text.replace(program, sys.executable)
            unit.write_text(text)
        # It succeeds in spite of a key that it does not know, and speaks of this machine's other units too.
        verified = subprocess.run([analyze, "verify", "--man=no", *map(str, units)], cwd=place, text=True, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        findings = [line for line in verified.stdout.splitlines() if any(name in line for name in _UNITS)]
        if verified.returncode != 0 and not findings:
            findings = verified.stdout.splitlines() or ["systemd-analyze verify failed and said nothing"]
        for unit in units:
            findings += lines_of([analyze, "security", "--no-pager", "--offline=true",
                                  f"--threshold={_MOST_EXPOSED}", str(unit)], place)
    return findings + lines_of([sysusers, "--dry-run", str(context.root / "deploy/onecopy.sysusers.conf")],
                               context.root)
