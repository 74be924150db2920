"""The calls of a connection to a daemon that return when they are done."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ... import _native
from ..memory import _pool, _streams
from ..requests import _broadcast, _files, _layouts, _pieces, _prepared
from ..requests._ends import End, Keeps, NothingToMove
from ..requests._range_arrays import Ranges, choose
from ..values._arrival import as_message
from ..values._broadcast import BroadcastCopy
from ..values._errors import InvalidArgument, Unimplemented
from ..values._program import diagnose
from ..values._refusal import known
from ..values._transfer import Progress, Transfer
from ..values._values import Buffer, Diagnosis, Export, Plan, whole_buffer
from . import _above
from ._buffer_calls import BufferCalls
from ._loaded import Loaded, Saved
from ._watch import Watch

_NONE: tuple[()] = ()


class Calls(BufferCalls):
    """What Node has beside `aio`: BufferCalls, and the calls that move bytes or ask about the node."""

    def __init__(self, native: _native.Node, *, most_registrations: int = 4096) -> None:
        super().__init__(native, most_registrations=most_registrations)
        self._known = _prepared.Known(native)
        self._running = _streams.Running()

    # ---- transfers

    def transfer(self, source: End, destination: End, *, at_most: int | None = None, path: str = "", link: str = "",
                 allow_emulated: bool = False, checksum: bool = False, deadline: float | None = None,
                 ranges: Ranges = (), source_blocks: Any = None, blocks: Any = None, sync: bool = False,
                 as_bytes: bool = False, message: str | bytes = b"", progress: Progress | None = None) -> Transfer:
        """Moves bytes, and returns when they have arrived; raises an Error with its reason where they have not.

        Arrays, and buffers that are named after arrays, must have elements of one type and byte order, and one shape
        unless one of them is flat: InvalidArgument (TYPE_MISMATCH, SIZE_MISMATCH). as_bytes=True moves the bytes whatever
        they mean. An end that is text is bytes.

        at_most: copies that the caller accepts; path: a pattern of paths ("rdma-*"); link: a link's name; checksum:
        compare both ends; deadline: in seconds; ranges: parts of two buffers, see below; sync: of a file of another node that is written, the disk has it, and its name; message: up to 4 KiB,
        which the destination's watch gets after the last byte (see `watch`); progress: called with the transfer as it goes, may raise to cancel it.

        Two lists of ends are one transfer of many buffers: each of the one goes to its like in the other. Two mappings go
        by their keys. The sources are of one node, and so are the destinations; a pair that is there twice moves once,
        arrays without elements are left out, and where nothing is left the transfer has succeeded.

        ranges is a list of pairs (source, destination); each is (offset, bytes) or (offset, bytes, stride, count). It may
        also be a tuple of two integer arrays, (source, destination), of shape (n, 2) or (n, 4), with one such row for each
        range; or (source, destination, bytes), where both arrays have the shape (n,) and contain offsets, and all ranges
        have the same length. Arrays may be NumPy's, torch's or any object with a buffer, in CPU memory. An empty list or
        empty arrays move nothing.

        Between two layouts (see `layout`): source_blocks and blocks are the numbers of the blocks that move, and of those
        that they are written to; see Node.layout.
        """
        policy = None
        chosen = _layouts.chosen_of(ranges, source_blocks, blocks)
        if chosen is _NONE and progress is None and deadline is None and not (checksum or sync or as_bytes or message):
            policy = _prepared.policy_of(at_most, path, link, allow_emulated)
        if policy is not None:
            known = self._known.run(source, destination, policy)
            if known is not None:
                return known
            try:
                return self._requests.call(
                    lambda request, keeps: self._known.run_first(source, destination, policy, request, keeps), source,
                    destination, at_most=at_most, path=path, link=link, allow_emulated=allow_emulated)
            except NothingToMove:
                return Transfer.nothing(self._native)
        return self._transfer(_native.Stop(), progress, source, destination, at_most=at_most, path=path, link=link,
                              allow_emulated=allow_emulated, checksum=checksum, deadline=deadline, ranges=chosen,
                              sync=sync, as_bytes=as_bytes, message=message)

    def prepare(self, source: End, destination: End, *, at_most: int | None = None, path: str = "", link: str = "",
                allow_emulated: bool = False, checksum: bool = False, deadline: float | None = None,
                ranges: Ranges = (), source_blocks: Any = None, blocks: Any = None,
                as_bytes: bool = False) -> _prepared.Prepared:
        """A transfer that is made many times: its ends are looked at now, and Prepared.run makes it each time. For a loop
        over arrays of a few KiB, of which looking at them takes longer than moving them."""
        chosen = _layouts.chosen_of(ranges, source_blocks, blocks)
        return _prepared.Prepared(self._requests, source, destination, {
            "at_most": at_most, "path": path, "link": link, "allow_emulated": allow_emulated, "checksum": checksum,
            "deadline": deadline, "chosen": chosen if isinstance(chosen, _layouts.Blocks) else choose(chosen),
            "as_bytes": as_bytes})

    def _transfer(self, stop: _native.Stop, progress: Progress | None, source: End, destination: End,
                  **options: Any) -> Transfer:
        def run(request: _pieces.Request, keeps: Keeps) -> Transfer:
            note = None
            if progress is not None:
                call = progress

                def note(update: _native.Transfer) -> None:
                    call(Transfer(self._native, update, keeps))

            with keeps.held_if_lost():
                return Transfer(self._native, self._native.run(request, note, stop), None)

        try:
            return self._requests.call(run, source, destination, **options)
        except NothingToMove:
            return Transfer.nothing(self._native)

    def start(self, source: End, destination: End, *, at_most: int | None = None, path: str = "", link: str = "",
              allow_emulated: bool = False, checksum: bool = False, deadline: float | None = None,
              ranges: Ranges = (), source_blocks: Any = None, blocks: Any = None, sync: bool = False,
              as_bytes: bool = False, message: str | bytes = b"") -> Transfer:
        """As `transfer`, without waiting for the end: see Transfer.wait. What is returned keeps the arrays."""
        policy = None
        chosen = _layouts.chosen_of(ranges, source_blocks, blocks)
        if chosen is _NONE and deadline is None and not (checksum or sync or as_bytes or message):
            policy = _prepared.policy_of(at_most, path, link, allow_emulated)
        if policy is not None and (known := self._known.start(source, destination, policy)) is not None:
            return known

        def run(request: _pieces.Request, keeps: Keeps) -> Transfer:
            if policy is not None:
                started = self._known.start_first(source, destination, policy, request, keeps)
            else:
                started = self._native.start(request)
            for pool in keeps.pools:
                pool._hold(started.id, keeps)
            return Transfer(self._native, started, keeps)

        try:
            return self._requests.call(
                run, source, destination, at_most=at_most, path=path, link=link, allow_emulated=allow_emulated,
                checksum=checksum, deadline=deadline, ranges=chosen, sync=sync, as_bytes=as_bytes, message=message)
        except NothingToMove:
            return Transfer.nothing(self._native)

    def enqueue(self, source: End, destination: End, *, stream: Any = None, after: Any = None, then: Any = None,
                at_most: int | None = None, path: str = "", link: str = "", allow_emulated: bool = False,
                checksum: bool = False, deadline: float | None = None, ranges: Ranges = (), source_blocks: Any = None,
                blocks: Any = None, as_bytes: bool = False) -> _streams.Queued:
        """As `transfer`, but in the order of CUDA streams, and without waiting: it begins when what is queued on the
        stream `after` now has been done, and what is queued on the stream `then` from now on waits for its end on the
        GPU. `stream` is both. A stream goes on however the transfer ends: Queued.wait says how, or raises.

        Streams: of torch, CuPy or Numba, what has `__cuda_stream__`, or a handle as an int; 0 is the default stream of
        the current device. Raises FailedPrecondition (STREAM_CAPTURING) for one that is capturing a graph, which goes
        on as before.
        """
        before, behind = (stream if each is None else each for each in (after, then))

        def run(request: _pieces.Request, keeps: Keeps) -> _streams.Queued:
            native = self._native.enqueue(request, None if before is None else _streams.number(before),
                                          None if behind is None else _streams.number(behind))
            queued = _streams.Queued(self._native, native, keeps)
            self._running.add(queued)
            return queued

        try:
            return self._requests.call(
                run, source, destination, at_most=at_most, path=path, link=link, allow_emulated=allow_emulated,
                checksum=checksum, deadline=deadline, ranges=_layouts.chosen_of(ranges, source_blocks, blocks), as_bytes=as_bytes)
        except NothingToMove:
            return _streams.Queued(self._native, None, None)

    def broadcast(self, source: End, destinations: Sequence[End], *, at_most: int | None = None, path: str = "",
                  link: str = "", allow_emulated: bool = False, checksum: bool = False, deadline: float | None = None,
                  retry_for: float = 30, piece_bytes: int = 0, progress: Progress | None = None) -> list[BroadcastCopy]:
        """The same bytes into buffers of many nodes, along a chain: each destination takes each piece of the payload from the
        one before it, as soon as that has it. So the source sends the payload once, unless it has at most 1 MiB: that goes to
        each destination directly. Returns a BroadcastCopy for each destination, in their order, when each has all bytes or
        has failed: look at its `error`, which also tells of a node that does not answer. Raises, and moves nothing, for a
        destination that is unknown, of another size, named twice, or that the caller may not write, and for a policy that
        cannot be met.

        If a destination fails or does not answer, those behind it take from another one (see `origins`). One that stopped
        answering is tried again for `retry_for` seconds. The caller needs the right to read each destination that others are
        to take from. Watchers see an arrival for each piece. piece_bytes: how much moves at a time; 0: as suits the payload
        and the network. progress: called with all of it as one transfer. Other arguments as transfer's; arrays without gaps
        only."""
        return _broadcast.broadcast(self._requests, _native.Stop(), progress, source, destinations, at_most=at_most, path=path,
                                    link=link, allow_emulated=allow_emulated, checksum=checksum, deadline=deadline,
                                    retry_for=retry_for, piece_bytes=piece_bytes)

    def copy_from_file(self, file: str | os.PathLike[str], destination: End, *, offset: int = 0, bytes: int | None = None,
                       at_most: int | None = None, path: str = "", checksum: bool = False, deadline: float | None = None,
                       progress: Progress | None = None) -> Transfer:
        """Reads a file of this machine into a buffer or an array, on any node, and returns when the bytes are there. A
        regular file, and memory of this node, the daemon moves itself, by this process's right to the file (path
        storage-bounce); all else goes through memory of this process, which the receipt counts.

        offset: where in the file; bytes: how many, which must be there: as many as the array has or, for a buffer, what
        there is. Other arguments as transfer's. Arrays without gaps only. Raises NotFound (FILE_NOT_FOUND), and
        InvalidArgument or OutOfRange for a range that is not in the file or not in the destination."""
        return _files.read(self._requests, _native.Stop(), progress, file, destination, offset, bytes, at_most=at_most, path=path,
                           checksum=checksum, deadline=deadline)

    def copy_file_to_each(self, file: str | os.PathLike[str], destinations: Sequence[End], *, offset: int = 0,
                          bytes: int | None = None, at_most: int | None = None, checksum: bool = False,
                          deadline: float | None = None, progress: Progress | None = None) -> list[Transfer]:
        """Reads a file of this machine into several buffers or arrays, of any nodes, each byte from the disk once: a piece
        goes into one of them, the first that is of this node or else the first, and from there into the others, while the
        next is read. A transfer for each destination, in their order; of those that were copied onwards the receipt tells
        that way alone, and names in its evidence where from ("copied_from").

        bytes: how many, as many as the arrays have, which are of one size, or, for buffers, what there is. Other arguments
        as copy_from_file's. Raises as that does, and InvalidArgument for no destination, or one that is there twice. After
        a failure each may have got a part."""
        return _files.read_to_each(self._requests, _native.Stop(), progress, file, destinations, offset, bytes, at_most=at_most,
                                   checksum=checksum, deadline=deadline)

    def copy_to_file(self, source: End, file: str | os.PathLike[str], *, offset: int | None = None, sync: bool = False,
                     write_device: bool = False, at_most: int | None = None, path: str = "", checksum: bool = False,
                     deadline: float | None = None, progress: Progress | None = None) -> Transfer:
        """Writes a buffer or an array, of any node, into a file of this machine. The whole file is written under another
        name and renamed in the end, so that after a failure what was there still is; with an offset the bytes from there
        on are written in place, of a file that is there.

        sync: return once the disk has the bytes, and the name; write_device: a block device may be written, whose bytes are
        lost: without it InvalidArgument (BAD_ARGUMENT), and FailedPrecondition (DEVICE_IN_USE) for one that is mounted or
        part of another anyway. Raises ResourceExhausted (NO_SPACE) where the disk is
        full. Otherwise as copy_from_file."""
        return _files.write(self._requests, _native.Stop(), progress, source, file, offset, sync, write_device, at_most=at_most,
                            path=path, checksum=checksum, deadline=deadline)

    def load(self, file: str | os.PathLike[str], *, device: Any = None,
             pool: _pool.Pool | _pool.DevicePool | None = None, only: str | Iterable[str] | None = None,
             format: str | None = None, at_most: int | None = None, checksum: bool = False,
             deadline: float | None = None) -> Loaded:
        """The arrays of a file of this machine, by their names: of a safetensors file, of an index of several
        (`model.safetensors.index.json`, whose files are read side by side), or of a .npy file, whose array has the file's
        name and, where the file says so, Fortran order, as its strides tell. Only heads are looked at here; the rest the daemon moves into one memory for each file, in which the arrays
        lie where they do in the file. One that would not lie at a multiple of its elements' size there has a place of its
        own in it, as has on a GPU one that does not at a multiple of 16.

        device: None or "cpu" for memory of the host, else the GPU, as of `pool`; pool: takes the memory from this one,
        what no stream uses any more, for which it waits where there is no other; only: names, or patterns as "*.bias",
        of which each must be there; format: "safetensors", "index", "npy", where the file's name does not say; at_most,
        checksum, deadline: as transfer's, of each file, and of all together.

        Raises InvalidArgument (BAD_FORMAT) for a file that is not what its format says, before anything moves;
        Unimplemented for elements of less than a byte or of another byte order; NotFound for a file, or a tensor of `only`,
        that is not there; DataLoss for a file that becomes shorter meanwhile. Then the memory has been
        given back."""
        formats = _above.array_files()
        loaded: Loaded = formats.load(self, _native.Stop(), file, device, pool, only, format,
                                      formats.options(at_most, checksum, deadline))
        return loaded

    def save(self, file: str | os.PathLike[str], arrays: Mapping[str, Any] | Any, *,
             metadata: Mapping[str, str] | None = None, format: str | None = None, sync: bool = False,
             at_most: int | None = None, checksum: bool = False, deadline: float | None = None) -> Saved:
        """Writes arrays without gaps, of the host or of GPUs, into a safetensors file, by their names, or one array into a
        .npy file, which may be in Fortran order, too. The daemon moves their bytes, by one request for each memory that they
        lie in, as a pool's slab, what `load` returned, or an array of NumPy that they are parts of. Head and bytes get the file's name together, in the end: after a failure
        what there was still is, and nothing beside it. Arrays of a GPU are read as they are: synchronise first.

        metadata: texts by their names, of a safetensors file; sync: return once the disk has it; other arguments as
        load's. Raises InvalidArgument for an array with gaps or of a type that the format does not have, and
        ResourceExhausted (NO_SPACE) where the disk is full."""
        formats = _above.array_files()
        saved: Saved = formats.save(self, _native.Stop(), file, arrays, metadata, format, sync,
                                    formats.options(at_most, checksum, deadline))
        return saved

    def explain(self, source: End, destination: End, *, at_most: int | None = None, path: str = "", link: str = "",
                allow_emulated: bool = False, ranges: Ranges = (), source_blocks: Any = None, blocks: Any = None,
                as_bytes: bool = False) -> Plan:
        """What a transfer would do, and why nothing better; no byte moves. Raises FailedPrecondition with every refusal
        where no path is acceptable."""
        text, document = self._requests.call(
            lambda request, _: self._native.plan(request), source, destination, at_most=at_most, path=path, link=link,
            allow_emulated=allow_emulated, checksum=False, deadline=None,
            ranges=_layouts.chosen_of(ranges, source_blocks, blocks), as_bytes=as_bytes)
        return Plan._of(json.loads(document), text)

    def transfer_of(self, id: str) -> Transfer:
        """As it is now."""
        return Transfer(self._native, self._native.get_transfer(id), None)

    def transfers(self) -> list[Transfer]:
        """The caller's, the newest first."""
        return [Transfer(self._native, each, None) for each in self._native.list_transfers()]

    # ---- arrivals

    def watch(self, buffer: str | Buffer | Any = "") -> Watch:
        """What arrives from now on in a buffer of this node that the caller owns, or in an array of this process: each
        transfer that has written into it, once all of its bytes are there, and each message. Without a buffer: in all
        that this connection has registered or registers later. See Watch.

        Transfers of at most 64 KiB that went by shared memory are not told, unless the buffer keeps arrivals. If a
        buffer has no watch, and does not keep arrivals, transfers into it with a message are refused.

        Raises NotFound, PermissionDenied (NOT_OWNER), Unimplemented (NOT_SERVED) for a buffer of another node, and ResourceExhausted (QUOTA) where there are too many watches."""
        if isinstance(buffer, str):
            node, name = whole_buffer(buffer)
        else:
            watched = buffer if isinstance(buffer, Buffer) else self.register(buffer)
            node, name = watched.node, watched.id
        if node not in ("", self.name):
            raise Unimplemented(f"arrivals can be watched only on the buffer's own node, which is '{node}'", "NOT_SERVED",
                                "connect to the daemon there")
        return Watch(self._native.watch_arrivals(name))

    def tell(self, destination: str | Buffer, message: str | bytes, *, request_id: str = "") -> None:
        """Sends a message, of up to 4 KiB, to the watch of a buffer ("west:frame"); no bytes move. It comes after the
        bytes of every transfer that the caller saw succeed before. `request_id`: repeated with the same one, it is told
        once.

        Raises FailedPrecondition (NOT_WATCHED) if the buffer has no watch and does not keep arrivals, and
        ResourceExhausted (QUOTA) if the watch does not keep up."""
        if isinstance(destination, str):
            node, name = whole_buffer(destination)
        else:
            node, name = destination.node, destination.id
        self._native.tell(node, name, as_message(message), request_id)

    # ---- the node

    def exports(self, node: str = "") -> list[Export]:
        """The folders of a node (empty: this one) whose files the caller may read or write by their paths:
        `west:/data/x.bin`."""
        return [known(Export, each) for each in json.loads(self._native.list_exports(node))]

    def info(self, name: str = "") -> dict[str, Any]:
        """What `onecopy --json node show` prints."""
        found: dict[str, Any] = json.loads(self._native.get_node(name))
        return found

    def nodes(self) -> list[dict[str, Any]]:
        """This node first, then its peers."""
        found: list[dict[str, Any]] = json.loads(self._native.list_nodes())
        return found

    def doctor(self) -> Diagnosis:
        """What keeps this node from the one-copy path."""
        return diagnose(self.run_dir)

    def __repr__(self) -> str:
        return f"<onecopy.Node {self.name}, {self.run_dir}>"


__all__ = ["Calls"]
