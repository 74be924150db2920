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
from ..values._numbers import is_unpaced, is_untraced
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
                 as_bytes: bool = False, message: str | bytes = b"", rate_limit: int | str = 0, priority: str = "normal",
                 trace: str = "", progress: Progress | None = None) -> Transfer:
        """Moves bytes and returns when they have arrived. Raises an Error with its reason if they have not. Does not wait
        for CUDA streams: synchronise first, or use `enqueue`.

        Arrays, and buffers that are named after arrays, must have the same element type and byte order at both ends, and
        the same shape unless one of them is flat: else InvalidArgument (TYPE_MISMATCH, SIZE_MISMATCH). as_bytes=True moves
        the bytes without this check. An end that is given as text is bytes.

        at_most: the largest number of copies; path: a pattern of paths ("rdma-*"); link: the name of a link;
        allow_emulated: at_most accepts a software RDMA device; checksum: compare the checksums of both ends; deadline: in
        seconds; ranges: parts of two buffers, see below; sync: for a destination file on another node: return when its
        bytes and its name are on the disk; message: up to 4 KiB, which the destination's watch gets after the last byte
        (see `watch`); rate_limit: the largest number of bytes per second, at least 1 MiB (or a text such as "500MiB"); 0: no
        limit; priority: "low", "normal" or "high", among this user's own transfers; trace: a W3C traceparent, which the logs of
        all nodes that take part name (see Transfer.trace); progress: a function that is called with the transfer at each
        change; an exception in it cancels the transfer.

        Two lists of ends move as one transfer of many buffers, in pairs. Two mappings are matched by key. All sources must
        be on one node, and all destinations on one node. A pair that appears twice moves once. Arrays without elements are
        left out; if nothing is left, the transfer succeeds.

        ranges is a list of pairs (source, destination); each is (offset, bytes) or (offset, bytes, stride, count). It can
        also be a tuple of two integer arrays, (source, destination), of shape (n, 2) or (n, 4), with one such row for each
        range. If all ranges have the same length, it can be (source, destination, bytes), where both arrays have the shape
        (n,) and contain offsets. The arrays can be NumPy's, torch's or any object with the buffer protocol, in CPU memory.
        An empty list or empty arrays move nothing.

        Between two layouts (see `layout`): source_blocks are the numbers of the blocks to move, and blocks those of the
        blocks to write."""
        policy = None
        chosen = _layouts.chosen_of(ranges, source_blocks, blocks)
        plain = not (checksum or sync or as_bytes or message) and is_untraced(trace) and is_unpaced(rate_limit, priority)
        if chosen is _NONE and progress is None and deadline is None and plain:
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
                              sync=sync, as_bytes=as_bytes, message=message, rate_limit=rate_limit, priority=priority, trace=trace)

    def prepare(self, source: End, destination: End, *, at_most: int | None = None, path: str = "", link: str = "",
                allow_emulated: bool = False, checksum: bool = False, deadline: float | None = None,
                ranges: Ranges = (), source_blocks: Any = None, blocks: Any = None, as_bytes: bool = False,
                rate_limit: int | str = 0, priority: str = "normal", trace: str = "") -> _prepared.Prepared:
        """Prepares a transfer that you make many times: it inspects the ends now, and Prepared.run makes the transfer each
        time. Use it for a loop over arrays of a few KiB, where inspecting takes longer than moving."""
        chosen = _layouts.chosen_of(ranges, source_blocks, blocks)
        return _prepared.Prepared(self._requests, source, destination, {
            "at_most": at_most, "path": path, "link": link, "allow_emulated": allow_emulated, "checksum": checksum,
            "deadline": deadline, "chosen": chosen if isinstance(chosen, _layouts.Blocks) else choose(chosen),
            "as_bytes": as_bytes, "rate_limit": rate_limit, "priority": priority, "trace": trace})

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
              as_bytes: bool = False, message: str | bytes = b"", rate_limit: int | str = 0,
              priority: str = "normal", trace: str = "") -> Transfer:
        """Like `transfer`, but does not wait for the end: see Transfer.wait. The result keeps the arrays alive."""
        policy = None
        chosen = _layouts.chosen_of(ranges, source_blocks, blocks)
        plain = not (checksum or sync or as_bytes or message) and is_untraced(trace) and is_unpaced(rate_limit, priority)
        if chosen is _NONE and deadline is None and plain:
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
                checksum=checksum, deadline=deadline, ranges=chosen, sync=sync, as_bytes=as_bytes, message=message,
                rate_limit=rate_limit, priority=priority, trace=trace)
        except NothingToMove:
            return Transfer.nothing(self._native)

    def enqueue(self, source: End, destination: End, *, stream: Any = None, after: Any = None, then: Any = None,
                at_most: int | None = None, path: str = "", link: str = "", allow_emulated: bool = False,
                checksum: bool = False, deadline: float | None = None, ranges: Ranges = (), source_blocks: Any = None,
                blocks: Any = None, as_bytes: bool = False, rate_limit: int | str = 0,
                priority: str = "normal", trace: str = "") -> _streams.Queued:
        """Like `transfer`, but in the order of CUDA streams, and without waiting. The transfer begins when the work already
        queued on the stream `after` is done. Work that is queued on the stream `then` from now on waits, on the GPU, for
        the end of the transfer. `stream` stands for the one that you leave out. A stream continues however the transfer
        ends; Queued.wait returns the result, or raises.

        Streams: a stream of torch, CuPy or Numba, any object with `__cuda_stream__`, or a handle as an int; 0 is the
        default stream of the current device. Raises FailedPrecondition (STREAM_CAPTURING) for a stream that captures a
        graph; the capture continues."""
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
                checksum=checksum, deadline=deadline, ranges=_layouts.chosen_of(ranges, source_blocks, blocks), as_bytes=as_bytes,
                rate_limit=rate_limit, priority=priority, trace=trace)
        except NothingToMove:
            return _streams.Queued(self._native, None, None)

    def broadcast(self, source: End, destinations: Sequence[End], *, at_most: int | None = None, path: str = "",
                  link: str = "", allow_emulated: bool = False, checksum: bool = False, deadline: float | None = None,
                  retry_for: float = 30, piece_bytes: int = 0, trace: str = "",
                  progress: Progress | None = None) -> list[BroadcastCopy]:
        """Copies the same bytes into buffers of many nodes. The destinations form a chain: each takes each piece of the
        payload from the one before it. So the source sends the payload once. A payload of at most 1 MiB goes from the
        source to each destination directly. Returns a BroadcastCopy for each destination, in the order of the list, when
        each has all bytes or has failed: look at its `error`. Raises, and moves nothing, if a destination is unknown, has
        another size, is named twice or may not be written by the caller, or if a policy cannot be met.

        If a destination fails or does not answer, those behind it take the payload from another one (see `origins`). A
        destination that stopped answering is tried again for `retry_for` seconds. The caller needs the right to read each
        destination that others take from. Watches get an arrival for each piece. piece_bytes: how much moves at a time; 0:
        chosen by the payload and the network. progress: called with a Transfer that stands for the whole broadcast. Other
        arguments: see transfer. Arrays must not have gaps."""
        return _broadcast.broadcast(self._requests, _native.Stop(), progress, source, destinations, at_most=at_most, path=path,
                                    link=link, allow_emulated=allow_emulated, checksum=checksum, deadline=deadline,
                                    retry_for=retry_for, piece_bytes=piece_bytes, trace=trace)

    def copy_from_file(self, file: str | os.PathLike[str], destination: End, *, offset: int = 0, bytes: int | None = None,
                       at_most: int | None = None, path: str = "", checksum: bool = False, deadline: float | None = None,
                       rate_limit: int | str = 0, priority: str = "normal", trace: str = "",
                       progress: Progress | None = None) -> Transfer:
        """Copies a file of this machine into a buffer or an array, on any node, and returns when the bytes are there. The
        daemon itself reads a regular file, with this process's access rights (path storage-bounce, or
        storage-bounce+tcp-bounce and the like to another node). The bytes of a pipe or similar go through memory of this
        process; the receipt counts that.

        offset: where to begin in the file; bytes: how many bytes to copy. By default, an array is filled, and a buffer gets
        the rest of the file. Other arguments: see transfer. Arrays must not have gaps. Raises NotFound (FILE_NOT_FOUND),
        and InvalidArgument or OutOfRange for a range outside the file or the destination."""
        return _files.read(self._requests, _native.Stop(), progress, file, destination, offset, bytes, at_most=at_most, path=path,
                           checksum=checksum, deadline=deadline, rate_limit=rate_limit, priority=priority, trace=trace)

    def copy_file_to_each(self, file: str | os.PathLike[str], destinations: Sequence[End], *, offset: int = 0,
                          bytes: int | None = None, at_most: int | None = None, checksum: bool = False,
                          deadline: float | None = None, trace: str = "",
                          progress: Progress | None = None) -> list[Transfer]:
        """Copies a file of this machine into several buffers or arrays, of any nodes, and reads each byte from the disk
        once. A piece goes into one of them (the first that is on this node, else the first in the list), and from there
        into the others while the next piece is read. Returns a transfer for each destination, in the order of the list. The
        receipt of a destination that got its bytes from another one describes only that step, and names the other one in
        its evidence ("copied_from").

        bytes: how many bytes to copy; by default, arrays (which must have the same size) are filled, and buffers get the
        rest of the file. Other arguments: see copy_from_file. Raises the same errors, and InvalidArgument if there is no
        destination or one appears twice. After a failure, each destination may have some of the bytes."""
        return _files.read_to_each(self._requests, _native.Stop(), progress, file, destinations, offset, bytes, at_most=at_most,
                                   checksum=checksum, deadline=deadline, trace=trace)

    def copy_to_file(self, source: End, file: str | os.PathLike[str], *, offset: int | None = None, sync: bool = False,
                     write_device: bool = False, at_most: int | None = None, path: str = "", checksum: bool = False,
                     deadline: float | None = None, rate_limit: int | str = 0, priority: str = "normal", trace: str = "",
                     progress: Progress | None = None) -> Transfer:
        """Copies a buffer or an array, on any node, into a file of this machine. A whole file gets its name only at the
        end, so a failed write leaves the old file intact. With an offset, the bytes are written in place, into a file that
        must exist.

        sync: return when the bytes and the name are on the disk; write_device: allow a block device as the destination,
        whose contents are lost. Without it, raises InvalidArgument (BAD_ARGUMENT). A device that is mounted or part of
        another device is always refused: FailedPrecondition (DEVICE_IN_USE). Raises ResourceExhausted (NO_SPACE) if the
        disk is full. Otherwise like copy_from_file."""
        return _files.write(self._requests, _native.Stop(), progress, source, file, offset, sync, write_device, at_most=at_most,
                            path=path, checksum=checksum, deadline=deadline, rate_limit=rate_limit, priority=priority, trace=trace)

    def load(self, file: str | os.PathLike[str], *, device: Any = None,
             pool: _pool.Pool | _pool.DevicePool | None = None, only: str | Iterable[str] | None = None,
             format: str | None = None, at_most: int | None = None, checksum: bool = False,
             deadline: float | None = None) -> Loaded:
        """Loads the arrays of a file of this machine, by name: of a safetensors file, of an index of several files
        (`model.safetensors.index.json`; the files are read in parallel), or of a .npy file. The array of a .npy file has
        the file's name, and Fortran strides if the file is in Fortran order. This process reads only the heads of the
        files. The daemon moves the rest, for each file into one piece of memory, in which the arrays have the same layout
        as in the file. An array that would not be aligned to its element size (on a GPU, to 16 bytes) gets an aligned place
        elsewhere in that memory.

        device: None or "cpu" for host memory, else the GPU, as for `pool`; pool: a pool to take the memory from. Only
        memory that streams have finished with is used; if there is none, the call waits for it. only: names, or patterns
        such as "*.bias"; each must match something. format: "safetensors", "index" or "npy", if the file's name does not
        show it. at_most, checksum: for the transfer of each file; deadline: for all of them together.

        Raises InvalidArgument (BAD_FORMAT) if a file does not follow its format, before anything moves; Unimplemented for
        elements smaller than a byte (except pairs of F4) or in the other byte order; NotFound if a file, or a tensor of
        `only`, does not exist; DataLoss if a file is truncated during the load. After a failure, the memory is freed."""
        formats = _above.array_files()
        loaded: Loaded = formats.load(self, _native.Stop(), file, device, pool, only, format,
                                      formats.options(at_most, checksum, deadline))
        return loaded

    def save(self, file: str | os.PathLike[str], arrays: Mapping[str, Any] | Any, *,
             metadata: Mapping[str, str] | None = None, format: str | None = None, sync: bool = False,
             at_most: int | None = None, checksum: bool = False, deadline: float | None = None) -> Saved:
        """Saves arrays without gaps, in host or GPU memory, in a safetensors file, by name; or one array in a .npy file,
        which can be in Fortran order. The daemon moves the bytes, with one request for each piece of memory that has
        arrays: a pool's slab, the result of `load`, or a large NumPy array. The file gets its name only at the end: a
        failed save leaves the old file intact and no new file. Does not wait for CUDA streams: synchronise first.

        metadata: strings by name, for a safetensors file; sync: return when the file is on the disk; other arguments: see
        load. Raises InvalidArgument for an array that has gaps or a type that the format does not have, and
        ResourceExhausted (NO_SPACE) if the disk is full."""
        formats = _above.array_files()
        saved: Saved = formats.save(self, _native.Stop(), file, arrays, metadata, format, sync,
                                    formats.options(at_most, checksum, deadline))
        return saved

    def explain(self, source: End, destination: End, *, at_most: int | None = None, path: str = "", link: str = "",
                allow_emulated: bool = False, ranges: Ranges = (), source_blocks: Any = None, blocks: Any = None,
                as_bytes: bool = False) -> Plan:
        """The path that a transfer would take, and why each better path is rejected. No byte moves. Raises
        FailedPrecondition with all refusals if no path meets the policy."""
        text, document = self._requests.call(
            lambda request, _: self._native.plan(request), source, destination, at_most=at_most, path=path, link=link,
            allow_emulated=allow_emulated, checksum=False, deadline=None,
            ranges=_layouts.chosen_of(ranges, source_blocks, blocks), as_bytes=as_bytes)
        return Plan._of(json.loads(document), text)

    def transfer_of(self, id: str) -> Transfer:
        """The transfer with this id, as it is now."""
        return Transfer(self._native, self._native.get_transfer(id), None)

    def transfers(self) -> list[Transfer]:
        """The caller's transfers, the newest first."""
        return [Transfer(self._native, each, None) for each in self._native.list_transfers()]

    # ---- arrivals

    def watch(self, buffer: str | Buffer | Any = "") -> Watch:
        """Watches a buffer of this node that the caller owns, or an array of this process. From now on, reports each
        transfer that writes into it, once all bytes are there, and each message. Without a buffer: watches everything that
        this connection has registered or registers later. See Watch.

        Transfers of at most 64 KiB that went through shared memory are not reported, unless the buffer keeps arrivals. If a
        buffer has no watch and does not keep arrivals, transfers into it with a message are refused.

        Raises NotFound, PermissionDenied (NOT_OWNER), Unimplemented (NOT_SERVED) for a buffer of another node, and
        ResourceExhausted (QUOTA) if there are too many watches."""
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
        """Sends a message of up to 4 KiB to the watch of a buffer ("west:frame"); no bytes move. The message arrives after
        the bytes of every transfer that the caller saw succeed before. If you repeat a call with the same `request_id`, the
        watch gets the message once.

        Raises FailedPrecondition (NOT_WATCHED) if the buffer has no watch and does not keep arrivals, and ResourceExhausted
        (QUOTA) if the watch does not keep up."""
        if isinstance(destination, str):
            node, name = whole_buffer(destination)
        else:
            node, name = destination.node, destination.id
        self._native.tell(node, name, as_message(message), request_id)

    # ---- the node

    def exports(self, node: str = "") -> list[Export]:
        """The folders of a node (empty: this node) whose files the caller may read or write by their paths:
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
        """Finds what keeps this node from the one-copy path."""
        return diagnose(self.run_dir)

    def __repr__(self) -> str:
        return f"<onecopy.Node {self.name}, {self.run_dir}>"


__all__ = ["Calls"]
