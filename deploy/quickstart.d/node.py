"""A daemon of the demonstration, and its command line."""

import json
import re
import subprocess
import time

_START_SECONDS = 60
_STOP_SECONDS = 60  # it may drain for 30


class Failed(Exception):
    """What went wrong, for the reader."""


class CommandFailed(Failed):
    """An onecopy command failed. `status` is its exit status, `error` what it says of it under --json."""

    def __init__(self, command, status, error):
        self.status = status
        self.error = error
        said = " ".join(filter(None, (error.get("reason"), error.get("message"))))
        super().__init__(f"`{command}` ended with status {status}: {said}")


class Node:
    """Starts onecopyd and waits until it serves. `place` gets its run directory and its log, NAME.log."""

    def __init__(self, programs, name, place, peers=()):
        self.name = name
        self.run_dir = place / name
        self._cli = programs / "onecopy"
        ready = place / f"{name}.ready"
        command = [programs / "onecopyd", "--name", name, "--listen", "127.0.0.1:0", "--lanes", "127.0.0.1:0",
                   "--metrics-listen", "off", "--run-dir", self.run_dir]
        for peer in peers:
            command += ["--peer", f"{peer.name}={peer.address}"]
        with ready.open("wb") as out, (place / f"{name}.log").open("wb") as log:
            # A session of its own: Ctrl-C is for the demonstration, which then stops it in order.
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
                                             start_new_session=True)
        self.address = self._await_ready(ready)

    @property
    def pid(self):
        return self._process.pid

    def run(self, *arguments):
        """Runs an onecopy command and returns its JSON document."""
        command = [self._cli, "--run-dir", self.run_dir, "--json", *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        try:
            document = json.loads(done.stdout) if done.stdout else {}
        except json.JSONDecodeError as error:
            raise Failed(f"`{_words(arguments)}` printed no JSON: {error}\n{done.stdout}{done.stderr}") from error
        if done.returncode != 0:
            raise CommandFailed(_words(arguments), done.returncode,
                                document.get("error", {"message": done.stderr.strip()}))
        return document

    def show(self, *arguments):
        """Runs an onecopy command as a person would, lets it print, and returns its exit status."""
        print(f"\n{self.name}$ {_words(arguments)}", flush=True)
        command = [self._cli, "--run-dir", self.run_dir, *arguments]
        return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode

    def stop(self):
        """Lets it drain and end. Raises Failed unless it ends well."""
        self._process.terminate()
        try:
            status = self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise Failed(f"{self.name} did not end within {_STOP_SECONDS} s") from None
        if status != 0:
            raise Failed(f"{self.name} ended with status {status}")

    def kill(self):
        """Ends it at once, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _await_ready(self, ready):
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            said = re.match(r"ready name=\S+ listen=(\S+) run-dir=.*\n", ready.read_text(errors="replace"))
            if said:
                return said.group(1)
            if self._process.poll() is not None:
                raise Failed(f"{self.name} ended with status {self._process.returncode} before it served")
            time.sleep(0.02)
        self.kill()
        raise Failed(f"{self.name} did not serve within {_START_SECONDS} s")


def _words(arguments):
    return " ".join(["onecopy", *map(str, arguments)])
