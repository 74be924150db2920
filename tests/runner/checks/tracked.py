"""Nothing in the repository may lean on one machine: no path that exists only where somebody works."""

import re

NAME = "no file mentions a path of somebody's machine"

# Written so that this file does not find itself.
_PATHS = re.compile(r"(?<![\w.$}-])/(?:(?:work|root|mnt|Users|home/\w+)(?:/|\b(?=[\s\"'`]))|var/tmp/)"
                    r"|\.\./(?:shared)\b")


def run(context):
    findings = []
    for name in context.files():
        try:
            text = (context.root / name).read_text()
        except UnicodeDecodeError:  # not a text
            continue
        for number, line in enumerate(text.splitlines(), 1):
            found = _PATHS.search(line)
            if found:
                findings.append(f"{name}:{number}: mentions {found.group()}")
    return findings
