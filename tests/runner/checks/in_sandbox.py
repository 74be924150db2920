"""in_sandbox.py SETTINGS COMMAND...: becomes the command, restricted as the unit's settings say; see sandbox.py."""

import ctypes
import json
import os
import pathlib
import re
import resource
import struct
import sys

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_READ_ONLY, _NO_EXEC = 0x1, 0x8
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _SECCOMP_MODE_FILTER = 38, 22, 24, 2
_ALLOW, _EPERM = 0x7fff0000, 0x00050001
_AUDIT_ARCH = {"x86_64": 0xc000003e, "aarch64": 0xc00000b7}
_NUMBERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm-generic/unistd.h")  # of aarch64


def main():
    settings = json.loads(pathlib.Path(sys.argv[1]).read_text())
    keys = settings["keys"]
    _mounts(keys, settings["writable"], settings["executable"])
    os.umask(int(keys["UMask"][-1], 8))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for capability in range(64):
        _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setgid(settings["uid"])
    os.setuid(settings["uid"])
    _check(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    _filter(keys["calls"])
    os.execv(sys.argv[2], sys.argv[2:])


def _mounts(keys, writable, executable):
    _check(_LIBC.unshare(_CLONE_NEWNS), "a mount namespace")
    _mount(None, "/", _MS_REC | _MS_PRIVATE)
    allowed = [path for value in keys["ExecPaths"] for path in value.split()]
    allowed = [path.removeprefix("-") for path in allowed if not path.startswith("-") or os.path.exists(path[1:])]
    # The program is where it was built, not where the unit has it.
    folders = {os.path.realpath(path) for path in allowed if os.path.isdir(path)} | set(executable)
    named = [path for value in keys.get("ReadWritePaths", ()) for path in value.split()]
    writable = [*writable, *(path.removeprefix("-") for path in named if os.path.exists(path.removeprefix("-")))]
    for path in [*folders, *writable]:
        _mount(path, path, _MS_BIND | _MS_REC)
    if keys["ProtectSystem"] == ["strict"]:
        _attributes("/", _READ_ONLY, 0)
        for path in ("/dev", "/proc", "/sys", *writable):
            _attributes(path, 0, _READ_ONLY)
    if keys["NoExecPaths"] == ["/"]:
        _attributes("/", _NO_EXEC, 0)
        for path in folders:
            _attributes(path, 0, _NO_EXEC)


def _mount(source, target, flags):
    encoded = source.encode() if source else None
    _check(_LIBC.mount(encoded, target.encode(), None, flags, None), f"mounting {target}")


def _attributes(path, add, remove):
    """mount_setattr(2) on all mounts below the path."""
    attributes = struct.pack("QQQQ", add, remove, 0, 0)
    _check(_LIBC.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, path.encode(), _AT_RECURSIVE, attributes, len(attributes)),
           f"mount_setattr of {path}")


def _filter(names):
    """Lets these system calls through; any other one fails with EPERM."""
    text = pathlib.Path(next(path for path in _NUMBERS if os.path.exists(path))).read_text()
    numbers = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", text)}
    arch = _AUDIT_ARCH[os.uname().machine]
    program = [(0x20, 0, 0, 4), (0x15, 1, 0, arch), (0x06, 0, 0, _EPERM), (0x20, 0, 0, 0)]
    for number in sorted(numbers[name] for name in names if name in numbers):
        program += [(0x15, 0, 1, number), (0x06, 0, 0, _ALLOW)]
    program.append((0x06, 0, 0, _EPERM))
    code = b"".join(struct.pack("HBBI", *each) for each in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    _check(_LIBC.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(header), 0, 0), "the filter")


def _check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
