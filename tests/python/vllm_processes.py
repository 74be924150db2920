"""Objects in processes that have vLLM's Python files (fetch_vllm.py), one for each version."""

import json
import os
import subprocess
import sys

import fetch_vllm

VERSIONS = [version for version in fetch_vllm.VERSIONS if fetch_vllm.place(version).exists()]

SERVE = """
import json, sys

def serve(object):
    print("ready", flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            answer = {"value": getattr(object, name)(*arguments)}
        except Exception as failure:
            answer = {"failed": f"{type(failure).__name__}: {failure}"}
        print("answer " + json.dumps(answer), flush=True)
"""


class Failed(Exception):
    """What a worker raised."""


class Remote:
    """An object in a process of its own, whose methods are called as this one's are. `program`: it ends with `serve(object)`
    and may use what vLLM has."""

    def __init__(self, version, run_dir, program):
        env = dict(os.environ, ONECOPY_RUN_DIR=str(run_dir), PYTHONPATH=str(fetch_vllm.place(version)),
                   VLLM_NO_USAGE_STATS="1", VLLM_LOGGING_LEVEL="ERROR")
        self.process = subprocess.Popen([sys.executable, "-c", SERVE + program], env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self._read("ready")

    def _read(self, begins):
        for line in self.process.stdout:  # vLLM prints there, too
            if line.startswith(begins):
                return line
        raise AssertionError("the worker has gone")

    def call(self, *words):
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self._read("answer").removeprefix("answer "))
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer["value"]

    def __getattr__(self, name):
        return lambda *arguments: self.call(name, *arguments)

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()
