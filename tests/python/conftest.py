"""Two real daemons on this machine, east and west, that know each other."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import fake_gpus
import pytest

import onecopy

LEAK = "nanobind: leaked"  # what a program says at its end whose references our module has lost
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as for a shell's background jobs; tests interrupt themselves
    signal.signal(signal.SIGINT, signal.default_int_handler)
collect_ignore = ["grpc_only"]  # which has packages and a conftest of its own
BIN = pathlib.Path(os.environ["ONECOPY_BIN_DIR"])


class Daemon:
    """An onecopyd that serves."""

    def __init__(self, name, folder, arguments=()):
        self.name = name
        self.run_dir = folder / "run"
        self._folder = folder
        self._arguments = arguments
        self._log = (folder / "log").open("w")
        self._start("127.0.0.1:0")

    def _start(self, listen):
        self.process = subprocess.Popen(
            [BIN / "onecopyd", "--name", self.name, "--listen", listen, "--lanes", "127.0.0.1:0",
             "--metrics-listen", "off", "--run-dir", self.run_dir, *self._arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, text=True)
        ready = self.process.stdout.readline()
        if not ready.startswith(f"ready name={self.name} "):
            raise RuntimeError(f"onecopyd does not serve: {ready}{(self._folder / 'log').read_text()}")
        self.address = dict(word.split("=", 1) for word in ready.split()[1:])["listen"]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def start_again(self):
        """After kill: another one, at the same address."""
        self._start(self.address)

    def cli(self, *words):
        """onecopy --json WORDS…, by the program of the build."""
        done = subprocess.run([BIN / "onecopy", "--run-dir", self.run_dir, "--json", *words], capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout) if done.stdout else None

    def wait_for_peer(self, name):
        """Until this node sees that one connected."""
        deadline = time.monotonic() + 60
        while not any(each["name"] == name and each["state"] == "CONNECTED" for each in self.cli("node", "ls")):
            assert time.monotonic() < deadline, f"{self.name} does not see {name}"
            time.sleep(0.02)

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self._log.close()


class Pair:
    """east and west, connected."""

    def __init__(self, folder):
        for name in ("west", "east"):
            (folder / name).mkdir()
        self.west = Daemon("west", folder / "west")
        try:
            self.east = Daemon("east", folder / "east", ["--peer", f"west={self.west.address}"])
        except BaseException:
            self.west.end()
            raise
        for one, other in ((self.east, "west"), (self.west, "east")):
            one.wait_for_peer(other)

    def end(self):
        self.east.end()
        self.west.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A test fails where what it ran has lost references; what this process says at its end the runner looks at."""
    report = yield
    said = "".join(text for name, text in report.sections if name.endswith(report.when))
    if report.passed and LEAK in said and not item.get_closest_marker("leaks"):
        report.outcome = "failed"
        report.longrepr = f"a program has said \"{LEAK}\": see what was captured"
    return report


@pytest.fixture(autouse=True)
def no_leaks_in_programs(monkeypatch, request):
    """The same of what a test reads of its programs itself."""
    communicate = subprocess.Popen.communicate

    def looked_at(self, *arguments, **options):
        said = communicate(self, *arguments, **options)
        for text in said:
            shown = text.decode(errors="replace") if isinstance(text, bytes) else text or ""
            assert LEAK not in shown or request.node.get_closest_marker("leaks"), shown
        return said

    monkeypatch.setattr(subprocess.Popen, "communicate", looked_at)


def pytest_configure(config):
    config.addinivalue_line("markers", "leaks: the test's programs are meant to say that references were lost")


@pytest.fixture
def folder():
    """A folder with a short name: a socket's path has little room."""
    with tempfile.TemporaryDirectory(prefix="onecopy-py.") as path:
        yield pathlib.Path(path)


@pytest.fixture(scope="session")
def pair():
    with tempfile.TemporaryDirectory(prefix="onecopy-py.") as path:
        made = Pair(pathlib.Path(path))
        yield made
        made.end()


@pytest.fixture
def east(pair):
    return onecopy.connect(pair.east.run_dir)


@pytest.fixture
def west(pair):
    return onecopy.connect(pair.west.run_dir)


@pytest.fixture
def daemon(folder):
    """One for a test that treats it badly."""
    (folder / "lone").mkdir()
    made = Daemon("lone", folder / "lone")
    yield made
    made.end()


@pytest.fixture(scope="session")
def fake_driver():
    """The driver without a GPU. What is packed for machines with GPUs may lack it, a build may not."""
    if not fake_gpus.LIBRARY.exists():
        assert not (BIN.parent / "CMakeCache.txt").exists(), "build the target onecopy_fake_cuda"
        pytest.skip("the driver without a GPU was not packed")


@pytest.fixture(scope="session")
def gpus(fake_driver):
    """A daemon with GPUs that are none."""
    with tempfile.TemporaryDirectory(prefix="onecopy-py.") as path:
        folder = pathlib.Path(path)
        made = Daemon("gpus", folder, fake_gpus.config(folder))
        yield made
        made.end()


@pytest.fixture
def gpu_daemon(folder, fake_driver):
    """One of those for a test that treats it badly."""
    made = Daemon("lone", folder, fake_gpus.config(folder))
    yield made
    made.end()


@pytest.fixture
def gpu_node(gpus):
    return onecopy.connect(gpus.run_dir, cuda_library=fake_gpus.LIBRARY)


@pytest.fixture
def gpu_driver(gpus):
    return fake_gpus.Driver()


@pytest.fixture
def gpu_pool(gpu_node):
    return gpu_node.pool(device=0, slab="2MiB")
