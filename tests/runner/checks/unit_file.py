"""systemd's own judgement of the service and of its user."""

import pathlib
import subprocess
import sys
import tempfile

from checks.context import lines_of, tool

NAME = "systemd accepts the service, as sandboxed as it is meant to be"

_MOST_EXPOSED = 20  # tenths: `systemd-analyze security` says 0 for a service that may nothing, 100 for one that may all


def run(context):
    analyze, sysusers = tool("systemd-analyze"), tool("systemd-sysusers")
    with tempfile.TemporaryDirectory(prefix="onecopy-unit.") as place:
        # The program need not be installed here for its unit to be sound.
        unit = pathlib.Path(place, "onecopyd.service")
        text = (context.root / "deploy/onecopyd.service").read_text()
        unit.write_text(text.replace("/usr/bin/onecopyd", sys.executable))
        # It succeeds in spite of a key that it does not know, and speaks of this machine's other units too.
        verified = subprocess.run([analyze, "verify", "--man=no", str(unit)], cwd=place, text=True, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        findings = [line for line in verified.stdout.splitlines() if unit.name in line]
        if verified.returncode != 0 and not findings:
            findings = verified.stdout.splitlines() or ["systemd-analyze verify failed and said nothing"]
        findings += lines_of([analyze, "security", "--no-pager", "--offline=true", f"--threshold={_MOST_EXPOSED}",
                              str(unit)], place)
    return findings + lines_of([sysusers, "--dry-run", str(context.root / "deploy/onecopy.sysusers.conf")],
                               context.root)
