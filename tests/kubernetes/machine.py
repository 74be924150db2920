"""Pods as a node of Kubernetes would make them of the manifests, by namespaces, mounts, users and capabilities, without Kubernetes.

Each container has the root folder of this machine, as an overlay that goes with it, the programs of the build in their places,
and the volumes, user, capabilities, limits and namespaces that its pod's specification says. Devices, seccomp and control groups are
this machine's. The caller is root.
"""

import copy
import os
import pathlib
import re
import shlex
import subprocess

import rendering

NODE, ADDRESS = "gpu-01", "10.254.7.1"
_FIELDS = {"spec.nodeName": NODE, "status.podIP": ADDRESS}
MEMLOCK_KIB = 64  # as containers' runtimes commonly have it, or little more
WAIT_SECONDS = 60
_OTHER_THAN_GROUP = 0o440  # of a Secret's file, as fsGroup makes it


class Node:
    """The folders of a machine that pods mount, and the Secrets and ConfigMaps that they name."""

    def __init__(self, place, binaries, documents):
        self.place, self.binaries = place, binaries
        self._documents = documents
        self._containers = 0
        (place / "host").mkdir()
        self.secrets = place / "secrets"
        self.secrets.mkdir()
        authority = place / "authority"
        for command in (["init-ca", authority], ["issue", NODE, "--ca", authority, "--out", self.secrets]):
            run_command([binaries / "onecopy", "cert", *command])
        (self.secrets / "ca.pem").write_bytes((authority / "ca.pem").read_bytes())

    def new_folder(self):
        self._containers += 1
        folder = self.place / f"container-{self._containers}"
        folder.mkdir()
        return folder

    def volume(self, pod, volume, kept):
        """The folder that a volume of the pod is."""
        group = pod.get("securityContext", {}).get("fsGroup", 0)
        if "hostPath" in volume:
            folder = self.place / "host" / volume["hostPath"]["path"].lstrip("/")
            if volume["hostPath"]["type"] == "DirectoryOrCreate" and not folder.exists():
                folder.mkdir(parents=True, mode=0o755)
            if not folder.is_dir():
                raise rendering.Failed(f"{volume['hostPath']['path']} is not there")
            return folder
        folder = kept / volume["name"]
        if folder.exists():
            return folder
        folder.mkdir(parents=True)
        if "configMap" in volume:
            for document in self._documents:
                if document["kind"] == "ConfigMap" and document["metadata"]["name"] == volume["configMap"]["name"]:
                    for name, text in document["data"].items():
                        (folder / name).write_text(text)
        if "projected" in volume:
            for file in self.secrets.iterdir():
                copy = folder / file.name
                copy.write_bytes(file.read_bytes())
                os.chown(copy, 0, group)
                copy.chmod(volume["projected"]["defaultMode"] & _OTHER_THAN_GROUP)
        return folder


class Pod:
    """One pod on a node. Its containers that were started end with it."""

    def __init__(self, node, spec, programs=None):
        """`programs`: a folder of further programs, which is /opt there."""
        self._node, self._spec, self._programs = node, spec, programs
        self._kept = node.new_folder()  # volumes of its own
        self._running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._running:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()

    def run(self, container, command=None, said=b""):
        """A container to its end."""
        return subprocess.run(self._command(container, command), input=said, capture_output=True, check=False, timeout=WAIT_SECONDS)

    def prepare(self):
        for container in self._spec.get("initContainers", ()):
            done = self.run(container)
            if done.returncode != 0:
                raise rendering.Failed(f"{container['name']}: {done.stderr.decode()}")

    def start(self, container, command=None, speaks=True):
        """Starts a container and waits for its first line, if it `speaks`; the process, and what it said."""
        log = self._kept / "log"
        with log.open("w") as errors:
            process = subprocess.Popen(self._command(container, command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=errors)
        self._running.append(process)
        return process, speaks and (process.stdout.readline().decode() or log.read_text())

    def execute(self, process, container, command, limit=WAIT_SECONDS, said=b""):
        """A command in a container that runs, as probes are."""
        enter = ["nsenter", f"--target={daemon_of(process.pid)}", "--mount", "--ipc", "--uts", "--net", "--root", "--wd=/"]
        if not self._spec.get("hostPID"):
            enter.append("--pid")
        return subprocess.run([*enter, *self._rights(container), *command], input=said, capture_output=True, check=False, timeout=limit)

    def _command(self, container, command=None):
        folder = self._node.new_folder()
        unshare = ["unshare", "--mount", "--propagation=private", "--uts", "--cgroup"]
        unshare += [] if self._spec.get("hostIPC") else ["--ipc"]
        unshare += [] if self._spec.get("hostNetwork") else ["--net"]
        unshare += [] if self._spec.get("hostPID") else ["--pid", "--fork", "--kill-child"]
        words = command or [*container.get("command", ()), *container.get("args", ())]
        environment = self._environment(container)
        for name, value in environment.items():
            words = [str(word).replace(f"$({name})", value) for word in words]
        lines = ["set -e", f"mount -t tmpfs tmpfs {folder}", f"cd {folder}", "mkdir upper work root",
                 "mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root",
                 "mount -t proc proc root/proc", "mount -t sysfs -o ro sysfs root/sys", "mount --rbind /dev root/dev",
                 "mount -t tmpfs -o mode=755 tmpfs root/run"]
        for name, program in (("onecopyd", "usr/bin/onecopyd"), ("onecopy", "usr/bin/onecopy"),
                              ("onecopy-holder", "usr/libexec/onecopy-holder")):
            lines += [f"mkdir -p root/{os.path.dirname(program)}", f"touch root/{program}",
                      f"mount --bind {self._node.binaries / name} root/{program}"]
        if self._programs:
            lines.append(f"mount --bind {self._programs} root/opt")
        volumes = {volume["name"]: volume for volume in self._spec.get("volumes", ())}
        for mount in container.get("volumeMounts", ()):
            source = self._node.volume(self._spec, volumes[mount["name"]], self._kept / "volumes")
            target = f"root{mount['mountPath']}"
            lines += [f"mkdir -p {target}", f"mount --bind {source} {target}"]
            if mount.get("readOnly"):
                lines.append(f"mount -o remount,bind,ro {target}")
        if not self._spec.get("hostNetwork"):
            lines += ["ip link set lo up", f"ip address add {ADDRESS}/32 dev lo"]
        if container["securityContext"]["readOnlyRootFilesystem"]:
            lines.append("mount -o remount,ro root")
        variables = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *(f"{name}={value}" for name, value in environment.items())]
        lines += [f"ulimit -l {MEMLOCK_KIB}", f"exec chroot root {shlex.join([*self._rights(container), *variables, *words])}"]
        return [*unshare, "bash", "-c", "\n".join(lines)]

    def _rights(self, container):
        """What a container's runtime gives and takes before it starts a program."""
        of_pod, own = self._spec.get("securityContext", {}), container["securityContext"]
        user = own.get("runAsUser", of_pod.get("runAsUser", 0))
        group = own.get("runAsGroup", of_pod.get("runAsGroup", 0))
        added = [f"+{name.lower()}" for name in own["capabilities"].get("add", ())]
        words = ["setpriv", f"--bounding-set={','.join(['-all', *added])}", "--inh-caps=-all", f"--regid={group}"]
        words += [f"--groups={of_pod['fsGroup']}"] if "fsGroup" in of_pod else ["--clear-groups"]
        if user:
            words.append(f"--reuid={user}")
        return [*words, *([] if own["allowPrivilegeEscalation"] else ["--no-new-privs"]), "--"]

    @staticmethod
    def _environment(container):
        return {each["name"]: each["value"] if "value" in each else _FIELDS[each["valueFrom"]["fieldRef"]["fieldPath"]]
                for each in container.get("env", ())}


def run_command(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise rendering.Failed(f"{command}: {done.stderr}")


def daemon_of(pid):
    """The process itself, or the one that it waits for in another PID namespace."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children and b"unshare" in pathlib.Path(f"/proc/{pid}/comm").read_bytes() else pid


def status_of(pid):
    return dict(re.findall(r"^(\w+):\t(.*)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M))
