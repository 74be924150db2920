"""Passes a file to onecopyd whose file system does not answer: it can be opened, and whoever asks it anything else, or
closes it, waits until this program's input ends.

Arguments: an empty folder, the path of attach.sock, and the packets Hello and PassDescriptor in hexadecimal. Prints "passed",
and then the answer in hexadecimal. In processes of its own, since each that has such a file open hangs when it ends.
"""

import array
import os
import select
import socket
import struct
import subprocess
import sys

_LOOKUP, _OPEN, _INIT = 1, 14, 26
_FILE = 2
_IN_HEADER = struct.Struct("<IIQQIIIHH")


def _answer(fuse, request, body):
    os.write(fuse, struct.pack("<IiQ", 16 + len(body), 0, request) + body)


def _serve(fuse, folder):
    while True:
        ready, _, _ = select.select([fuse, 0], [], [])
        if 0 in ready and not os.read(0, 1):
            break
        if fuse not in ready:
            continue
        message = os.read(fuse, 1 << 16)
        _, opcode, request, *_ = _IN_HEADER.unpack_from(message)
        if opcode == _INIT:
            _answer(fuse, request, struct.pack("<IIIIHHIIHHI28x", 7, 31, 4096, 0, 1, 1, 4096, 1, 0, 0, 0))
        elif opcode == _LOOKUP:
            entry = struct.pack("<QQQQII", _FILE, 0, 3600, 0, 0, 0)
            attributes = struct.pack("<QQQQQQIIIIIIIIII", _FILE, 8192, 16, 0, 0, 0, 0, 0, 0, 0o100666, 1, 0, 0, 0, 4096, 0)
            _answer(fuse, request, entry + attributes)
        elif opcode == _OPEN:
            _answer(fuse, request, struct.pack("<QII", 0, 0, 0))
    subprocess.run(["umount", "--lazy", folder], check=False)
    os._exit(0)


def main():
    folder, path, hello, pass_descriptor = sys.argv[1:]
    fuse = os.open("/dev/fuse", os.O_RDWR)
    subprocess.run(["mount", "-i", "-t", "fuse", "-o", f"fd={fuse},rootmode=40000,user_id=0,group_id=0", "test", folder],
                   pass_fds=[fuse], check=True)
    if os.fork() == 0:
        _serve(fuse, folder)
    os.close(fuse)
    file = os.open(os.path.join(folder, "file"), os.O_RDWR)
    attach = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    attach.connect(path)
    attach.send(bytes.fromhex(hello))
    attach.recv(1 << 16)
    attach.sendmsg([bytes.fromhex(pass_descriptor)],
                   [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))])
    print("passed", flush=True)
    print(attach.recv(1 << 16).hex(), flush=True)


main()
