// A process's connection to the onecopyd of its node.
//
//   auto client = onecopy::Client::Connect();
//   if (!client) return Fail(client.status());
//   auto window = client->CreateHostBuffer("frame", 1 << 20);
//   if (!window) return Fail(window.status());
//   auto done = client->RunTransfer({.source = window->endpoint(), .destination = {"west", "a"}});
//   if (!done) return Fail(done.status());
#pragma once

#include "onecopy/language.h"  // first

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "onecopy/arrival.h"
#include "onecopy/arrival_watch.h"
#include "onecopy/async.h"
#include "onecopy/broadcast.h"
#include "onecopy/buffer.h"
#include "onecopy/host_buffer.h"
#include "onecopy/mapped_buffer.h"
#include "onecopy/node.h"
#include "onecopy/pool.h"
#include "onecopy/result.h"
#include "onecopy/session.h"
#include "onecopy/transfer.h"

namespace onecopy {

namespace client {
class AsyncLoop;
class Connection;
}  // namespace client

struct ConnectOptions {
  // The daemon's run directory. Empty: $ONECOPY_RUN_DIR; else /run/onecopy, if it has an
  // attach.sock; else $XDG_RUNTIME_DIR/onecopy.
  std::string run_dir = {};
  std::string program = "onecopy-client";  // name and version of the program, for the daemon's log
  // The time limit for attaching, and for calls about what the daemon knows (Get…, List…, Delete…,
  // grants, views, nodes, cancelling). For longer work: how long the daemon may be silent, at least
  // 8 s.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  // Whether small transfers may go by a ring of shared memory; see RunTransfer.
  bool use_ring = true;
  // Whether buffers that this client registers keep what arrives in them; see WatchArrivals.
  bool keep_arrivals = false;
  // The largest number of threads that copy for RegisterMemory. They start when they are needed,
  // and block all signals. 0: chosen from the number of cores.
  unsigned copy_threads = 0;
  // The library of the CUDA driver, for RegisterCuda: the one that allocated the memory. Empty: the
  // system's.
  std::string cuda_library = {};
};

// Thread-safe. Methods block until the daemon has answered, unless their comment says otherwise.
//
// **Deadlines.** The daemon ends a transfer or a copy at its deadline. If the daemon has not
// reported the end 2.5 s later, the call fails with DEADLINE_EXCEEDED (DEADLINE); the transfer may
// then still be running and using its memory. What goes by a ring is not interrupted: it fails only
// if it takes those 2.5 s longer. Without a deadline, calls that make the daemon work (creating,
// registering and summing buffers, probing, planning, transfers, watching) take as long as the
// daemon shows that it lives. If it is silent for `ConnectOptions::timeout`, they fail with
// UNAVAILABLE (DAEMON_UNREACHABLE). All other calls take at most that time (DEADLINE_EXCEEDED).
// Destructors, and Close methods, wait for the daemon for at most 5 s. If it does not answer, the
// library repeats the release after the next call that the daemon answers. Waiting for callbacks of
// futures has no limit.
//
// **When the daemon ends.** A call in progress fails once with UNAVAILABLE (SESSION_LOST): it may
// or may not have been done. The library repeats calls that only read (Get…, List…, PlanTransfer,
// SumBuffer, ProbeNode, Ping). Every later call connects again first. While no daemon answers, it
// fails with UNAVAILABLE (DAEMON_UNREACHABLE), and nothing is done. The end of the session ends all
// its registrations, their grants, and open series. A new session registers HostBuffers and pools
// again: with their bytes, another id, and the same name (a new name if the daemon chose it). The
// caller must register everything else again; until then, calls that name it fail with NOT_FOUND
// (BUFFER_LOST). session() lists it. A new daemon does not know earlier transfers.
//
// If a holder keeps the daemon's buffers (docs/operate.md, "What survives a restart"), calls wait
// for the next daemon: at most 10 s after the first call that misses the last one, and at most
// until their deadline. A call that was in progress then fails with SESSION_LOST. CreateBuffers is
// repeated, once. AwaitTransfer, WatchTransfer and futures of transfers that went by gRPC continue
// with the next daemon.
//
// **After a fork**, the child must not use its parent's Client. Every call fails at once with
// FAILED_PRECONDITION (FORKED), and destructors leave the parent's session as it is. Parent and
// child share the memory of a HostBuffer. A child can Connect for itself if the parent had not used
// gRPC before the fork, by this library or otherwise. Else that fails with FORKED, too, because the
// child does not have gRPC's threads. Programs started with exec are not affected.
//
// What the client registered lives until it is deleted or the connection ends: when the Client and
// every HostBuffer made by it are gone, or when the process ends. Transfers continue without the
// Client, unless they use memory that it registered.
class Client {
 public:
  // UNAVAILABLE (DAEMON_UNREACHABLE) if no daemon answers, or (PEER_INCOMPATIBLE) if the daemon and
  // this library have no protocol version in common.
  static Result<Client> Connect(const ConnectOptions& options = {});

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  // Ends futures that are not done with CANCELLED; their transfers continue. Returns when the
  // callbacks have returned. If a callback calls it, the library's thread does the rest afterwards.
  ~Client();

  // The name of this node, the daemon's version, and the run directory that was found.
  const std::string& node() const;
  std::string daemon_version() const;
  const std::string& run_dir() const;

  // How often this client has connected, and what it lost. Does not call the daemon, so it does not
  // show a restart that no call has met yet; Ping finds that.
  SessionInfo session() const;

  // OK if the daemon serves. Does nothing else.
  Status Ping();

  // Lets the daemon allocate a buffer, filled with zeros, here or on another node. It stays after
  // this process has ended. ALREADY_EXISTS (NAME_TAKEN), RESOURCE_EXHAUSTED, or the reason why the
  // memory is not usable; PERMISSION_DENIED (NOT_OWNER) on a node that does not allow it to users
  // of this node.
  Result<BufferInfo> CreateBuffer(const CreateBufferRequest& request);
  // CreateBuffer for each request, with many calls in progress at once. Returns the results in the
  // order of the requests. A failure does not affect the others.
  std::vector<Result<BufferInfo>> CreateBuffers(const std::vector<CreateBufferRequest>& requests);

  // Allocates memory of this process that the daemon shares, filled with zeros. If `name` is empty,
  // the daemon chooses one. The memory has all of its pages when this returns. Use another `pages`
  // only if you will use a small part of it: transfers from memory without pages cost many times as
  // much (HAS_HOLES). RESOURCE_EXHAUSTED (NO_MEMORY, OPEN_FILES, QUOTA).
  Result<HostBuffer> CreateHostBuffer(const std::string& name, uint64_t bytes,
                                      HostPages pages = HostPages::kNow);

  // Makes a pool: memory in pieces, of the host or a GPU, that is registered once; see pool.h.
  // INVALID_ARGUMENT (BAD_SIZE, BAD_ARGUMENT); with `initial_bytes`, also fails like Pool::Grow.
  // For GPU or pinned memory also NOT_FOUND (DEVICE_NOT_FOUND), FAILED_PRECONDITION (NOT_SHAREABLE)
  // for a GPU whose memory other processes cannot map, (HOST_NOT_PINNABLE), and what keeps the
  // driver from working (NO_DRIVER, …).
  Result<std::shared_ptr<Pool>> CreatePool(const PoolOptions& options = {});

  // Registers a part of the caller's memory file: a memfd, or POSIX shared memory (shm_open,
  // torch's share_memory_()). The file must be open for reading and writing; `fd` is borrowed for
  // the call. If it is not sealed with F_SEAL_SHRINK, it can be truncated at any time: transfers
  // that then miss bytes fail (MEMORY_FAULT), and so do all later ones. INVALID_ARGUMENT
  // (BAD_HANDLE).
  Result<BufferInfo> RegisterMemfd(const std::string& name, int fd, uint64_t offset_bytes,
                                   uint64_t bytes);

  // Registers ordinary memory of this process: malloc, NumPy, a CPU tensor. If `name` is empty, the
  // daemon chooses one. The daemon and network devices cannot reach such memory. Threads of this
  // library copy it through a slab: memory that they share with the daemon, made by the first such
  // call. So a transfer takes one copy more than with a HostBuffer; its receipt counts it. While
  // this process is stopped, transfers of its buffers wait.
  //
  // The memory must exist until the buffer has been deleted or the connection has ended; both wait
  // until the threads have released it. If it is unmapped earlier, transfers fail (MEMORY_FAULT),
  // but a copy in progress at that moment ends this process. RESOURCE_EXHAUSTED if a slab is not
  // possible.
  Result<BufferInfo> RegisterMemory(const std::string& name, void* pointer, uint64_t bytes,
                                    MemoryAccess access = MemoryAccess::kReadWrite);
  // For memory of RegisterMemory; `name`: the buffer's name or id. When this returns, no thread of
  // this library touches the memory any more, and transfers of it fail. The buffer stays until you
  // remove it. Other buffers stay as they are.
  void CloseMemory(const std::string& name);

  // Registers GPU memory of this process: any part of an allocation of cudaMalloc, or of
  // cuMemCreate with a POSIX file descriptor handle (or of several of these, mapped one right
  // behind the other). Delete the buffer before you free the memory.
  //
  // Other processes cannot map some memory: cudaMallocAsync, managed memory, cuMemCreate without
  // that handle, a MIG instance, cudaMalloc in another PID namespace than the daemon's. Threads of
  // this library copy such memory, as for RegisterMemory. BufferInfo::form is then "process-gpu",
  // and receipts count the additional copy and say how to avoid it. Does not wait for work that is
  // queued on the memory: synchronise first. FAILED_PRECONDITION (NOT_SHAREABLE), with a remedy,
  // for anything that is not GPU memory.
  Result<BufferInfo> RegisterCuda(const std::string& name, uintptr_t device_pointer,
                                  uint64_t bytes);

  // RegisterMemory or RegisterCuda for each, with many calls in progress at once. Returns the
  // results in the order of the requests. A failure does not affect the others.
  std::vector<Result<BufferInfo>> RegisterAll(const std::vector<MemoryToRegister>& memory);

  // Finds the allocation that has this GPU memory of the process: where it begins and ends, and its
  // id. One registration of an allocation serves all of its pieces, as long as this returns the
  // same id. If the `bytes` continue into allocations that are mapped right behind (cuMemMap; torch
  // does this with expandable_segments), returns all of these as one. Fails like RegisterCuda.
  Result<CudaAllocation> FindCudaAllocation(uintptr_t device_pointer, uint64_t bytes = 1) const;

  // Registers a part of a dma-buf: memory of another vendor's GPU, of an FPGA, or of any driver
  // that exports it. The descriptor must be open for reading and writing; `fd` is borrowed for the
  // call. The memory is used in place while the buffer lives. INVALID_ARGUMENT (BAD_HANDLE) for
  // anything that is not a dma-buf.
  Result<BufferInfo> RegisterDmaBuf(const std::string& name, int fd, uint64_t offset_bytes,
                                    uint64_t bytes);

  // Gives names (views) to parts of memory that is registered, or that the daemon has allocated. A
  // part is a range, or an array with its shape. Others use the name without knowing where the part
  // lies. Makes all views or none; see ViewRequest. A view ends with its memory, or by
  // DeleteBuffer, which keeps the memory. An existing view with the same name and place is
  // returned. Only for the memory's owner; 1 to 4,096 at a time. ALREADY_EXISTS (NAME_TAKEN),
  // NOT_FOUND, PERMISSION_DENIED (NOT_OWNER), OUT_OF_RANGE, RESOURCE_EXHAUSTED (QUOTA), and
  // INVALID_ARGUMENT for arrays that repeat or overlap their elements.
  Result<std::vector<BufferInfo>> CreateViews(const std::vector<ViewRequest>& views);
  Result<BufferInfo> CreateView(const ViewRequest& view);

  // Maps the memory of a buffer of this node into this process, without a copy. The daemon or
  // another process can own it. You need the right to read and to write the whole buffer; see
  // mapped_buffer.h. `buffer`: a name or an id, also with this node's name ("east:a"). NOT_FOUND,
  // PERMISSION_DENIED; RESOURCE_EXHAUSTED (QUOTA, [limits] mappings); FAILED_PRECONDITION
  // (NOT_SHAREABLE) for memory that other processes cannot map, or that only its owner may map,
  // (PID_NAMESPACE) for memory of cudaMalloc across PID namespaces, (OTHER_NODE) for a buffer of
  // another node, and (NO_PEER_ACCESS, DRIVER_FAILED) if that GPU does not reach the memory.
  Result<MappedBuffer> MapBuffer(const std::string& buffer, const MapOptions& options = {});
  // Whether the daemon itself reads and writes files of its clients, according to the last session.
  bool moves_files() const;
  // Passes an open file to the daemon, as one end of a transfer of this node. The daemon then moves
  // its bytes without this process. Set offset_bytes and bytes, and use the result once. The daemon
  // has the access rights with which the file was opened. Both descriptors are borrowed for the
  // call. `direct_fd`: the same file opened with O_DIRECT, to bypass the page cache; -1: none.
  // `name` is for messages and lists. UNIMPLEMENTED (NOT_SERVED) if the daemon does not move files.
  // The functions of file_copy.h do all this by themselves.
  Result<Endpoint> PassFile(const std::string& name, int fd, int direct_fd = -1);

  // `node` empty: this one. `name` may be an id. CANCELLED after a requested stop;
  // DEADLINE_EXCEEDED after `limit`, which is at most ConnectOptions::timeout.
  Result<BufferInfo> GetBuffer(const std::string& node, const std::string& name,
                               std::stop_token stop = {},
                               std::optional<std::chrono::milliseconds> limit = {});
  // The buffers of the node that the caller owns or has a grant on (for an administrator: all), by
  // name.
  Result<std::vector<BufferInfo>> ListBuffers(const std::string& node = {});
  // FAILED_PRECONDITION (BUFFER_IN_USE) while a transfer uses it or a client has mapped it. `force`
  // cancels these transfers first, and revokes the mappings, which their clients must close within
  // 2 s. `node` empty: this one.
  Status DeleteBuffer(const std::string& name, bool force = false, const std::string& node = {});
  // Deletes a buffer that this client has registered, before its memory is freed. Takes at most 5
  // s, and does not connect to a new daemon. When it returns, also with DEADLINE_EXCEEDED, no
  // thread of this library touches the memory any more. A daemon that did not answer ends the
  // buffer when it answers again, or with the connection.
  Status ReleaseBuffer(const std::string& name, bool force = true);
  Result<BufferSum> SumBuffer(const Endpoint& range);
  // The checksum of each block, at most kMaxSummedBlocks. UNIMPLEMENTED (NOT_SERVED) where the
  // buffer's node or this one has a daemon that cannot do that. CANCELLED after a requested stop;
  // DEADLINE_EXCEEDED after `limit`.
  Result<BufferSum> SumBlocks(const SumRequest& request, std::stop_token stop = {},
                              std::optional<std::chrono::milliseconds> limit = {});

  Result<GrantInfo> CreateGrant(const CreateGrantRequest& request);
  // The grants on a buffer. `buffer` empty: the grants on all buffers of the caller, and those
  // given to the caller; then `node` can be another node.
  Result<std::vector<GrantInfo>> ListGrants(const std::string& buffer = {},
                                            const std::string& node = {});
  // Revokes a grant: no new transfer can use it, and transfers that depend on it are being ended.
  Status DeleteGrant(const GrantId& id);

  // The path that a transfer would take; no byte moves. FAILED_PRECONDITION (POLICY_UNMET), with
  // all refusals, if no path meets the policy.
  Result<Plan> PlanTransfer(const TransferRequest& request);

  // Starts a transfer and returns it at once. A small transfer inside this node is returned with
  // its end, if that comes within 2 ms. If the call fails, no byte has moved.
  Result<TransferInfo> StartTransfer(const TransferRequest& request);
  Result<TransferInfo> GetTransfer(const TransferId& id);
  // The transfers of the caller that this node knows (for an administrator: all), the newest first.
  Result<std::vector<TransferInfo>> ListTransfers();

  // Called on the thread of the call that takes it, with the transfer now and at each change.
  using OnUpdate = std::function<void(const TransferInfo&)>;

  // Blocks until the transfer is in a final state, and returns it. CANCELLED after a requested
  // stop; the transfer continues.
  Result<TransferInfo> WatchTransfer(const TransferId& id, const OnUpdate& on_update = {},
                                     std::stop_token stop = {});

  // Blocks until the transfer has ended, like WatchTransfer, or is UNCONFIRMED. A requested stop
  // cancels the transfer; the call then waits until nothing moves any more. The state says how the
  // transfer ended; see OutcomeOf.
  Result<TransferInfo> AwaitTransfer(const TransferId& id, const OnUpdate& on_update = {},
                                     std::stop_token stop = {});

  // Runs a transfer: StartTransfer, then AwaitTransfer. If a stop was requested before, returns
  // CANCELLED and starts nothing.
  //
  // Does not wait for CUDA streams: work on GPU memory of either end must be done
  // (cudaStreamSynchronize) before you call this. RunTransferAsync takes a StreamOrder.
  //
  // A ring of shared memory carries small transfers, from the second transfer between the same two
  // buffers on. At least one of the buffers must be on this node, everything except the ends and
  // the policy must be at its default, and the path that the daemon takes without a policy must
  // meet the request's policy. A ring carries up to 64 KiB of any memory. It carries up to 4 GiB if
  // a GPU's copy engine moves the bytes inside this node, or from GPU memory of another daemon of
  // this host into this node's. The daemon checks and refuses such a transfer like any other, but
  // it cannot be cancelled once it has begun. A waiting thread spins for a while before it sleeps.
  // The result lacks the plan and the receipt's `refused`, `attempts` and `evidence`: GetTransfer
  // has them.
  Result<TransferInfo> RunTransfer(const TransferRequest& request, const OnUpdate& on_update = {},
                                   std::stop_token stop = {});

  // RunTransfer for callers that do not want to wait; see async.h. Does not block. Fails at once
  // only with FORKED or BAD_NAME, and then calls no callback; every other error is in the future.
  Result<TransferFuture> RunTransferAsync(const TransferRequest& request,
                                          TransferCallbacks callbacks = {});
  // The same without a copy of the request, for requests that you repeat. The pointer must not be
  // null.
  Result<TransferFuture> RunTransferAsync(std::shared_ptr<const TransferRequest> request,
                                          TransferCallbacks callbacks = {});
  // The same, in the order of CUDA streams. Does not use the ring. FAILED_PRECONDITION
  // (STREAM_CAPTURING) if one of the streams captures a graph; the capture continues.
  // (DRIVER_FAILED, DRIVER_TOO_OLD) with the driver's message. Nothing was queued then.
  Result<TransferFuture> RunTransferAsync(const TransferRequest& request, const StreamOrder& order,
                                          TransferCallbacks callbacks = {});
  // Like AwaitTransfer, without blocking. Any program may have started the transfer.
  Result<TransferFuture> AwaitTransferAsync(const TransferId& id, TransferCallbacks callbacks = {});

  // Copies the same bytes into buffers of many nodes. The destinations form a chain: each takes
  // each piece of the payload from the one before it, as soon as that one has it. So the source
  // sends the payload once, unless it is small (see BroadcastRequest::piece_bytes). The
  // destinations on the source's node come first in the chain, those of one node are neighbours,
  // and the others follow in the order of the request. If a destination fails or does not answer,
  // or if nothing arrives there for 5 s, those behind it take from another one (see
  // BroadcastOrigin). A destination that stopped answering gets what it lacks if it answers again
  // within BroadcastRequest::retry_for. The caller needs the right to read each destination that
  // others take from. Watches get an arrival for each piece.
  //
  // Blocks until each destination has all bytes or has failed, and no transfer is in progress any
  // more. If a transfer does not end within 5 s of its cancellation, because its node does not
  // answer, that node may still write. Returns the result for each destination, in the order of the
  // request, also for those that do not answer at the beginning. All other errors that can be found
  // before a byte moves make the call fail: INVALID_ARGUMENT (BAD_ARGUMENT) for no destination,
  // more than 1,024, or one that shares bytes with another or with the source, (SIZE_MISMATCH) for
  // one of the wrong length; NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION (POLICY_UNMET) and
  // the like as for a transfer, and (CALLED_FROM_CALLBACK) in a callback of this client. A
  // requested stop cancels the transfers in progress; the outcomes then say CANCELLED. This process
  // controls the transfers: they end with it.
  Result<std::vector<BroadcastCopy>> Broadcast(const BroadcastRequest& request,
                                               const OnBroadcast& on_update = {},
                                               std::stop_token stop = {});

  // Begins a series: a transfer whose parts the caller starts by StartTransfer (`part_of`), one
  // after another or several at once. It is listed, watched and cancelled as one transfer, and has
  // one receipt, in which the caller's own copy is a step. It ends with EndSeries, at its deadline,
  // when it is cancelled, or when the connection ends. RESOURCE_EXHAUSTED (QUOTA) if there are too
  // many at once.
  Result<TransferInfo> OpenSeries(const SeriesRequest& request);
  // Ends a series. If `failure` is OK, everything has arrived, and `checksum` is the checksum of
  // the whole payload as the caller read or wrote it (by the parts' algorithm, in hexadecimal;
  // empty if none was requested). With a failure, parts that still run are cancelled; without one,
  // they make the call fail with FAILED_PRECONDITION. Returns the series; if it has ended,
  // unchanged.
  Result<TransferInfo> EndSeries(const TransferId& id, const Status& failure = {},
                                 const std::string& checksum = {});

  // Asks for the end of a transfer and returns the transfer as it is now. Any thread may call this
  // while others watch the transfer. A transfer that has ended is returned unchanged.
  Result<TransferInfo> CancelTransfer(const TransferId& id);

  // Watches a buffer of this node. From now on, reports each transfer of any node that has written
  // into it, once all bytes are there, and each message. `buffer` empty: watches all buffers that
  // this client has registered, or registers later. For the buffer's owner and administrators.
  //
  // Each arrival is reported once, in the order in which the arrivals ended at this node. So what a
  // writer does after its transfer has succeeded, or after its message was sent, comes later. Of
  // two that a writer has in progress at once, either can come first. Transfers of at most 64 KiB
  // by a ring (see RunTransfer) are not reported; transfers with a message never use a ring.
  //
  // Reported arrivals count against the limits until they are acknowledged (see ArrivalWatch). When
  // [limits] arrivals is reached, messages and transfers with a message fail with
  // RESOURCE_EXHAUSTED (QUOTA) before any byte moves, so no message is lost. Arrivals without a
  // message are left out, and ArrivalBatch::missed counts them.
  //
  // Without a watch, arrivals are not reported, and transfers with a message are refused, unless
  // the buffer keeps arrivals (CreateBufferRequest, ConnectOptions). Such a buffer keeps all of
  // them for its next watch, within the same limits, and transfers into it do not use a ring.
  Result<ArrivalWatch> WatchArrivals(const std::string& buffer = {});

  // Sends a message to the destination's watch; no bytes move. Needs the right to write into some
  // part of the buffer. The message comes after the bytes and the arrival of every transfer that
  // the caller saw succeed before, also by a ring. So a reader can tell the owner of a buffer on
  // another node that it has finished reading. FAILED_PRECONDITION (NOT_WATCHED),
  // RESOURCE_EXHAUSTED (QUOTA). After UNAVAILABLE or DEADLINE_EXCEEDED, the message may have been
  // delivered; you can repeat it safely if it has a request id.
  Status SendMessage(const MessageRequest& request);

  // This node, or a peer as this node sees it, with its capabilities. `name` empty: this node.
  Result<NodeInfo> GetNode(const std::string& name = {});

  // Probes the links from a node to this one. `name` empty: from every connected peer, and this
  // node's own devices. Takes as long as the probes take. Only an administrator can repeat a recent
  // probe.
  Result<std::vector<ProbeInfo>> ProbeNode(const std::string& name = {});
  // This node first, then its peers by name.
  Result<std::vector<NodeInfo>> ListNodes();
  // The folders that a node exports to the caller; `node` empty: this node. Other folders are not
  // listed.
  Result<std::vector<ExportInfo>> ListExports(const std::string& node = {});

  // Administrators only: closes the daemon's CUDA context on a GPU. FAILED_PRECONDITION
  // (DEVICE_IN_USE).
  Status ReleaseDevice(const std::string& device);
  // Administrators only: sets the log level to "debug", "info", "warning" or "error"; returns the
  // previous level.
  Result<std::string> SetLogLevel(const std::string& level);
  // Administrators only: makes the node refuse new transfers (UNAVAILABLE, DRAINING), while running
  // ones continue; or makes it take new transfers again. Returns how many transfers run: now or,
  // with `wait`, when no transfer runs any more (ABORTED if another call ended the drain
  // meanwhile).
  Result<uint64_t> SetDraining(bool draining, bool wait = false);

 private:
  explicit Client(std::shared_ptr<client::Connection> connection);

  std::shared_ptr<client::Connection> connection_;
  std::shared_ptr<client::AsyncLoop> loop_;
};

}  // namespace onecopy
