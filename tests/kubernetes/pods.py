"""What a node of Kubernetes has to hold for the manifests' pods: daemons, their probes, and clients with each kind of memory."""

import contextlib
import copy
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile

import rendering
import rules
from machine import ADDRESS, MEMLOCK_KIB, NODE, WAIT_SECONDS, Node, Pod, daemon_of, status_of

_BYTES = 65536
_FILLED = b"\x5a" * _BYTES  # what registrar writes
_FILE = "/opt/registrar"  # in the client's mount namespace alone


def _onecopy(*words):
    return ["onecopy", "--run-dir", "/run/onecopy", "--quiet", *words]


def _output(words, done):
    if done.returncode != 0:
        raise rendering.Failed(f"onecopy {' '.join(words)}: status {done.returncode}: {done.stderr.decode()}")
    return done.stdout


class Client(Pod):
    """A pod of the example's, one container of which stays, with a program of its own or without."""

    def __init__(self, node, spec, program=("sh", "-c", "echo ready; read end")):
        super().__init__(node, spec, node.binaries / "support")
        self._program = list(program)
        self._process = None

    def __enter__(self):
        self._process, said = self.start(self._spec["containers"][0], self._program)
        if not said.startswith("ready"):
            self.__exit__()
            raise rendering.Failed(said)
        return self

    def does(self, *words, said=b""):
        """onecopy WORDS there: its output. Raises Failed."""
        return _output(words, self.execute(self._process, self._spec["containers"][0], _onecopy(*words), said=said))

    def runs(self, *command):
        return self.execute(self._process, self._spec["containers"][0], list(command))


def _same(found, expected):
    if found != expected:
        raise rendering.Failed(f"{len(found)} bytes, and not those that were put there")


def _allocated(node, spec):
    with Client(node, spec) as client:
        client.does("buffer", "create", "allocated", "--size", str(_BYTES), "--memory", "host")
        client.does("cp", "-", "allocated", said=_FILLED)
        _same(client.does("cp", "allocated", "-"), _FILLED)


def _mapped(node, spec):
    with Client(node, spec) as client:
        client.does("buffer", "create", "mapped", "--size", str(_BYTES), "--memory", "host")
        client.does("cp", "-", "mapped", said=_FILLED)
        done = client.runs("sh", "-c", "echo get 9 | /opt/mapper /run/onecopy mapped")
        _same(done.stdout, f"ready {_BYTES}\ngot {_FILLED[9]}\n".encode())


def _memfd(node, spec):
    with Client(node, spec, ["/opt/registrar", "/run/onecopy", "memfd", str(_BYTES)]) as client:
        _same(client.does("cp", "memfd", "-"), _FILLED)


def _ordinary(node, spec):
    with Client(node, spec, ["/opt/registrar", "/run/onecopy", "ordinary", str(_BYTES), "array"]) as client:
        _same(client.does("cp", "ordinary", "-"), _FILLED)


def _file(node, spec):
    with Client(node, spec) as client:
        client.does("cp", _FILE, "file", "--create")
        _same(client.does("cp", "file", "-"), (node.binaries / "support/registrar").read_bytes())


# The rows for host memory of the table in docs/kubernetes.md.
MEMORY = {"a buffer that the daemon allocates": _allocated, "the same, mapped into the client": _mapped,
          "memory of a memfd": _memfd, "ordinary memory": _ordinary, "a local file": _file}


def client_memory(node, spec):
    """What does not work with each kind of memory of a client's, as {kind: why}."""
    said = {}
    for kind, use in MEMORY.items():
        try:
            use(node, spec)
        except rendering.Failed as failure:
            said[kind] = str(failure)
    return said


_IPC_LOCK = 1 << 14  # CAP_IPC_LOCK of linux/capability.h


def _with(spec, edit):
    changed = copy.deepcopy(spec)
    edit(changed)
    return changed


def _without_host_pid(spec):
    spec["hostPID"] = False


def _without_ipc_lock(spec):
    container = spec["containers"][0]
    container["securityContext"]["capabilities"]["add"].remove("IPC_LOCK")
    container["command"] = [word for word in container["command"] if not word.endswith("-caps=+ipc_lock")]
    container["command"] = [word.replace("-all,+ipc_lock", "-all") for word in container["command"]]


def _as_user(spec):
    container = spec["containers"][0]
    container["securityContext"].update(runAsUser=64701, runAsGroup=64701)
    container["command"] = ["onecopyd"]


class _Serving(Pod):
    """The daemon's pod, ready."""

    def __init__(self, node, spec):
        super().__init__(node, spec)
        self._container = spec["containers"][0]
        self._process = None

    def __enter__(self):
        self.prepare()
        self._process, said = self.start(self._container)
        if not said.startswith(f"ready name={NODE} listen={ADDRESS}:7701 run-dir=/run/onecopy metrics={ADDRESS}:9464"):
            self.__exit__()
            raise rendering.Failed(said)
        return self

    def __exit__(self, *arguments):
        if self._process:
            self.signal(signal.SIGCONT)
        super().__exit__(*arguments)

    @property
    def pid(self):
        return daemon_of(self._process.pid)

    def signal(self, number):
        os.kill(self.pid, number)

    def probe(self, kind, limit=WAIT_SECONDS):
        """Whether a probe of that kind succeeds."""
        try:
            return self.execute(self._process, self._container, self._container[kind]["exec"]["command"], limit).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def audited(self, call):
        """The audit log's last line of that call; waits for it."""
        while True:
            lines = [line for line in (self._kept / "log").read_text().splitlines() if f" what={call} " in line]
            if lines:
                return lines[-1]
            if self._process.poll() is not None:
                raise rendering.Failed("the daemon has ended")

    def onecopy(self, *words, said=b""):
        return _output(words, self.execute(self._process, self._container, _onecopy(*words), said=said))


def _rights_of(pid):
    status = status_of(pid)
    found = {name: int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")}
    if found != {name: _IPC_LOCK for name in found}:
        yield f"capabilities {found}"
    if {*status["Uid"].split(), *status["Gid"].split()} != {"64701"} or status["Groups"].split() not in ([], ["64701"]):
        yield f"user {status['Uid']}, group {status['Gid']}, groups {status['Groups']}"
    if status["NoNewPrivs"] != "1":
        yield "it may get new privileges"


def _slots(daemon):
    """Of what kind a receipt says the slots are, through which bytes go."""
    for name in ("before", "after"):
        daemon.onecopy("buffer", "create", name, "--size", "1MiB", "--memory", "host")
    return json.loads(daemon.onecopy("--json", "cp", "before", "after", "--path", "peer-bounce"))["steps"][0]["to"]


def _probes(daemon):
    kinds = ("startupProbe", "readinessProbe", "livenessProbe")
    yield from (f"{kind} fails" for kind in kinds if not daemon.probe(kind))
    daemon.onecopy("node", "drain")
    yield from (f"{kind} fails while an administrator drains" for kind in kinds if not daemon.probe(kind))
    daemon.onecopy("node", "undrain")
    daemon.signal(signal.SIGSTOP)
    if daemon.probe(kinds[0], limit=2):  # the command is the same in all
        yield "a probe succeeds though the daemon is stopped"
    daemon.signal(signal.SIGCONT)


def _tenants(daemon, node, example):
    """The example's own command, and another pod of the same user."""
    with Pod(node, example) as pod:
        _output(example["containers"][0]["args"], pod.run(example["containers"][0]))
    shown = json.loads(daemon.onecopy("--json", "buffer", "show", "weights"))
    if not re.fullmatch(rf"1000\+pid\d+@{NODE}", shown["owner"]):
        yield f"the example's buffer belongs to {shown['owner']}"
    with Client(node, example) as red, Client(node, example) as blue:
        red.does("buffer", "create", "red", "--size", str(_BYTES), "--memory", "host")
        blue.does("buffer", "create", "blue", "--size", str(_BYTES), "--memory", "host")
        if _refused(blue, "cp", "red", "blue") != "BUFFER_NOT_FOUND":
            yield "another pod of the same user reads a buffer without a grant"
        to = json.loads(blue.does("--json", "buffer", "show", "blue"))["owner"]
        red.does("cp", "-", "red", said=_FILLED)
        red.does("grant", "add", "red", "--to", to, "--read")
        blue.does("cp", "red", "blue")
        if blue.does("cp", "blue", "-") != _FILLED:
            yield "other bytes"
        if _refused(red, "node", "drain") != "NOT_OWNER":
            yield "a client's pod drains the node"


def _refused(client, *words):
    """The reason, or nothing."""
    done = client.runs("onecopy", "--run-dir", "/run/onecopy", "--json", *words)
    return json.loads(done.stdout).get("error", {}).get("reason", "") if done.returncode else ""


def _unseen(node, example):
    """What a daemon that does not see its clients' processes refuses: each connection is an owner of its own."""
    found = client_memory(node, example)
    yield from (f"{kind} works without hostPID" for kind in MEMORY if "BUFFER_NOT_FOUND" not in found.get(kind, ""))


def _outside(node, *words, said=b""):
    """onecopy WORDS as root of the machine, outside of pods."""
    return subprocess.run([node.binaries / "onecopy", "--run-dir", node.place / "host/run/onecopy", *words], input=said,
                          capture_output=True, check=False)


def _host_root(node, daemon, seen):
    """Whether root of the machine, outside of pods, is an administrator, whose process the audit log names, is as `seen` says."""
    done = _outside(node, "--json", "node", "log-level", "info")
    reason = json.loads(done.stdout).get("error", {}).get("reason", "")
    if reason != ("" if seen else "NOT_OWNER"):
        yield f"it is refused by {reason!r}"
    if bool(re.search(r'from="pid \d+', daemon.audited("SetLogLevel"))) != seen:
        yield f"the audit log: {daemon.audited('SetLogLevel')}"


def _kept(node, site):
    """What the holder's pod keeps while the daemon's is replaced."""
    holder, daemon = (rules.pod_of(rules.the(site, "DaemonSet", name)) for name in (rules.HOLDER, rules.DAEMON))
    holder, daemon = (_with(spec, lambda spec: spec.update(hostNetwork=False)) for spec in (holder, daemon))
    socket = node.place / "host/run/onecopy-holder/holder.sock"
    with Pod(node, holder) as pod:
        pod.prepare()
        process, _ = pod.start(holder["containers"][0], speaks=False)
        while not socket.exists():
            if process.poll() is not None:
                yield f"the holder ended with status {process.returncode}"
                return
        with _Serving(node, daemon):
            for words, said in ((("buffer", "create", "kept", "--size", str(_BYTES), "--memory", "host"), b""),
                                (("cp", "-", "kept"), _FILLED)):
                _output(words, _outside(node, *words, said=said))
        with _Serving(node, daemon):
            if _outside(node, "--quiet", "cp", "kept", "-").stdout != _FILLED:
                yield "the next daemon does not have the buffer of root of the machine"


def run(documents, site, client, binaries, judge):
    """Judges each case of daemons and clients in pods. `documents` are those of the base, `site` has the holder, too, and `client`
    is the example's pod."""
    spec = rules.pod_of(rules.the(documents, "DaemonSet", rules.DAEMON))
    example = client["spec"]
    with contextlib.ExitStack() as stack:
        def node():
            place = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="onecopy-pods.")))
            place.chmod(0o755)
            return Node(place, binaries, [*documents, *site])

        def case(name, findings):
            try:
                judge(name, list(findings))
            except (rendering.Failed, OSError, subprocess.TimeoutExpired, ValueError, KeyError) as failure:
                judge(name, [f"{type(failure).__name__}: {failure}"])

        one = node()
        with _Serving(one, spec) as daemon:
            case("the daemon's pod serves as user 64701 with IPC_LOCK alone", _rights_of(daemon.pid))
            case("probes succeed, also while a node is drained, and fail when the daemon hangs", _probes(daemon))
            case("a client's pod of another user, and pods that share nothing without a grant", _tenants(daemon, one, example))
            for kind in MEMORY:
                case(f"hostPID: {kind}", _does_not(MEMORY[kind], one, example))
            case("hostPID: root of the machine is an administrator, and the audit log has its process", _host_root(one, daemon, True))
            case(f"slots are pinned though {MEMLOCK_KIB} KiB may be locked", _unlike(_slots(daemon), "pinned"))
        with _Serving(one, spec) as daemon:
            case("the pod starts again in the same folder of the host", _rights_of(daemon.pid))
        other = node()
        with _Serving(other, _with(spec, _without_host_pid)) as daemon:
            case("without hostPID, programs of a pod are refused what other programs of it have made", _unseen(other, example))
            case("without hostPID, root of the machine is not an administrator, nor named by its process", _host_root(other, daemon, False))
        case("the holder's pod keeps a buffer while the daemon's is replaced", _kept(node(), site))
        third = node()
        with _Serving(third, _with(spec, _without_ipc_lock)) as daemon:
            case("without IPC_LOCK they are not", _unlike(_slots(daemon), "host"))
        with _Serving(node(), _with(spec, _as_user)) as daemon:
            case("IPC_LOCK has no effect in a container that begins as another user than root", _unlike(_slots(daemon), "host"))


def _unlike(found, expected):
    return [] if found == expected else [f"{found}, and not {expected}"]


def _does_not(use, node, example):
    try:
        use(node, example)
    except rendering.Failed as failure:
        yield str(failure)
