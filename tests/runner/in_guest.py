"""The part of the runner that runs inside the guest: in_guest.py PLAN, a file that guest.py wrote.

Prints a line of JSON for each thing that happens: {"event": "case"|"output"|"end", "label": the program's, "values"}.
"""

import json
import os
import pathlib
import sys

import environment
import program
import report


def main():
    plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
    # The guest's own variables win: they say where one can write here.
    env = {**plan["env"], **os.environ}
    prefix = environment.command_prefix(plan["preset"])
    for task in plan["tasks"]:
        task["path"] = pathlib.Path(task["path"])
        _run(program.Task(**task), env, pathlib.Path(plan["logs"]), prefix)


def _run(task, env, logs, prefix):
    def tell(event, *values):
        print(json.dumps({"event": event, "label": task.label, "values": values}, default=str), flush=True)

    report.output = lambda path, lines: tell("output", path, lines)
    program.run(task, env, logs, lambda *case: tell("case", *case), prefix)
    tell("end")


if __name__ == "__main__":
    main()
