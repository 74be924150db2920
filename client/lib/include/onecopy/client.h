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
  std::string program = "onecopy-client";  // name and version of this program, for the daemon's log
  // How long the daemon may take for a call that asks for something it knows or changes that (Get…,
  // List…, Delete…, grants, views, nodes, cancelling) and for attaching. How long it may be silent
  // while it works for a call; at least 8 s then.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  // Whether small transfers may go by memory that is shared with the daemon; see RunTransfer.
  bool use_ring = true;
  // Whether the buffers that this client registers keep what arrives in them; see WatchArrivals.
  bool keep_arrivals = false;
  // Threads that copy for RegisterMemory, at most; they are started as they are needed, and block
  // all signals. 0: chosen from the number of cores.
  unsigned copy_threads = 0;
  // The CUDA driver's library, for RegisterCuda: the one by which the memory was made. Empty: the
  // system's.
  std::string cuda_library = {};
};

// Thread-safe. Every method blocks until the daemon has answered.
//
// **Deadlines.** A transfer or a copy with a deadline ends by it, or, where the daemon does not say
// how it ended, 2.5 s later with DEADLINE_EXCEEDED (DEADLINE): it may then still be under way
// and use its memory. Without a deadline, what makes the daemon work (creating, registering and
// summing buffers, probing, planning, transfers, watching) takes as long as the daemon shows that
// it lives; one that is silent for `ConnectOptions::timeout` is UNAVAILABLE (DAEMON_UNREACHABLE).
// All other calls take at most that time (DEADLINE_EXCEEDED). Destructors, and Close where there is
// one, wait for the daemon at most 5 s: what it was not told then it is told after the next call
// that it answers. Callbacks of futures are waited for as long as they take.
//
// **When the daemon ends.** A call that is under way fails once with UNAVAILABLE (SESSION_LOST): it
// may have been done. What only asks (Get…, List…, PlanTransfer, SumBuffer, ProbeNode, Ping) is
// asked again by itself. Every later call connects again first, with UNAVAILABLE
// (DAEMON_UNREACHABLE) and nothing done for as long as no daemon answers. With the session went
// everything that was registered, with its grants, and the open series. A new session registers
// HostBuffers and pools again, with their bytes, under another id and the same name (a new one
// where the daemon chose it); all else is for the caller to register again, and NOT_FOUND
// (BUFFER_LOST) where it is named before. session() has the list. A new daemon knows nothing of
// earlier transfers.
//
// If a holder keeps the daemon's buffers (docs/operate.md, "What survives a restart"), calls wait
// for the next daemon: at most 10 s after the first call that misses the last one, and at most
// until their deadline. A call that was under way then fails with SESSION_LOST.
// CreateBuffers is asked again, once. AwaitTransfer, WatchTransfer and futures of transfers that
// went by gRPC continue with the next daemon.
//
// **After a fork** the child must not use its parent's Client: every call fails at once with
// FAILED_PRECONDITION (FORKED), and destructors leave the parent's session as it is; the memory of
// a HostBuffer is shared by both. A child can Connect for itself where no process before it has
// used gRPC, by this library or otherwise; else that fails with FORKED, too, since gRPC's threads
// did not come along. Processes that were started with exec are new ones.
//
// What the client registered lives until it is deleted or the connection ends: when the Client and
// every HostBuffer made by it are gone, or the process ends. Transfers that were started go on
// without the Client, unless they use what it registered.
class Client {
 public:
  // UNAVAILABLE (DAEMON_UNREACHABLE) when no daemon answers, or (PEER_INCOMPATIBLE) when it speaks
  // no protocol version that this library speaks.
  static Result<Client> Connect(const ConnectOptions& options = {});

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  // Ends the futures that are not done with CANCELLED, while their transfers go on, and returns
  // when their callbacks have; called by a callback, it lets the thread do so afterwards.
  ~Client();

  // Name of this node, the daemon's version, and the run directory that was found.
  const std::string& node() const;
  std::string daemon_version() const;
  const std::string& run_dir() const;

  // How often this client has connected, and what it lost thereby. Asks the daemon for nothing, and
  // so does not see a restart that no call has met yet: Ping does.
  SessionInfo session() const;

  // Asks the daemon for nothing: OK when it serves.
  Status Ping();

  // A zeroed buffer that the daemon owns, here or on another node; it stays after this process.
  // ALREADY_EXISTS (NAME_TAKEN), RESOURCE_EXHAUSTED, or the reason why the memory is not viable;
  // PERMISSION_DENIED (NOT_OWNER) on a node where users of this one may make none.
  Result<BufferInfo> CreateBuffer(const CreateBufferRequest& request);
  // The same of each, with many of the calls under way together: what each came to, in their order.
  // One that fails changes nothing for the others.
  std::vector<Result<BufferInfo>> CreateBuffers(const std::vector<CreateBufferRequest>& requests);

  // Memory of this process, made to be shared, zeroed. `name` empty: the daemon chooses one. It has
  // all of its pages when this returns, unless `pages` says that only some will ever be of use:
  // untouched memory costs transfers out of it many times as much (HAS_HOLES).
  // RESOURCE_EXHAUSTED (NO_MEMORY, OPEN_FILES, QUOTA).
  Result<HostBuffer> CreateHostBuffer(const std::string& name, uint64_t bytes,
                                      HostPages pages = HostPages::kNow);

  // Memory in pieces, of host or GPU memory that is registered once; see pool.h. INVALID_ARGUMENT
  // (BAD_SIZE, BAD_ARGUMENT); with `initial_bytes`, as Pool::Grow. Of GPU or pinned memory also
  // NOT_FOUND (DEVICE_NOT_FOUND), FAILED_PRECONDITION (NOT_SHAREABLE) for a GPU whose memory no
  // other process maps, (HOST_NOT_PINNABLE), and what keeps the driver from working (NO_DRIVER, …).
  Result<std::shared_ptr<Pool>> CreatePool(const PoolOptions& options = {});

  // A piece of the caller's own memory file: a memfd, or POSIX shared memory (shm_open, torch's
  // share_memory_()). It must be open for reading and writing; `fd` is borrowed for the call. One
  // that is not sealed with F_SEAL_SHRINK may be cut short at any time: transfers that then miss
  // bytes fail (MEMORY_FAULT), as does whatever comes after; a sealed one cannot.
  // INVALID_ARGUMENT (BAD_HANDLE).
  Result<BufferInfo> RegisterMemfd(const std::string& name, int fd, uint64_t offset_bytes,
                                   uint64_t bytes);

  // Ordinary memory of this process: of malloc, NumPy, a CPU tensor. `name` empty: the daemon
  // chooses one. No daemon and no network device reaches such memory: threads of this library copy
  // it, through memory that they share with the daemon (a slab, which the first such call makes).
  // So a transfer takes one copy more than of a HostBuffer, which its receipt counts. Transfers of
  // this process's buffers wait while it is stopped.
  //
  // The memory must stay until the buffer has been deleted or the connection has ended; both wait
  // until the threads have released it. If it has been unmapped anyway, transfers fail
  // (MEMORY_FAULT), but a copy that is under way at that moment ends this process.
  // RESOURCE_EXHAUSTED where there can be no slab.
  Result<BufferInfo> RegisterMemory(const std::string& name, void* pointer, uint64_t bytes,
                                    MemoryAccess access = MemoryAccess::kReadWrite);
  // Of such memory that is the buffer `name` or has that id: no thread of this library touches it
  // any more when this returns, and what moves it fails. The buffer stays until it is removed,
  // which then may be later. All other buffers stay as they are.
  void CloseMemory(const std::string& name);

  // GPU memory of this process, at any offset inside an allocation of cudaMalloc, or of cuMemCreate
  // with a POSIX file descriptor handle (several of these where they are mapped one right behind
  // the other). Delete the buffer before the memory is freed.
  //
  // What no other process can map (cudaMallocAsync, managed memory, cuMemCreate without that
  // handle, a MIG instance, cudaMalloc in another PID namespace than the daemon's) is copied by
  // threads of this library, as RegisterMemory's: BufferInfo::form is "process-gpu" then, and
  // receipts count the copy more and say how to have it fewer. Work that is queued on the memory is
  // not waited for: synchronise first. FAILED_PRECONDITION (NOT_SHAREABLE) for what is not memory
  // of a GPU, with the remedy.
  Result<BufferInfo> RegisterCuda(const std::string& name, uintptr_t device_pointer,
                                  uint64_t bytes);

  // RegisterMemory or RegisterCuda of each, with many of the calls under way together: what each
  // came to, in their order. One that fails changes nothing for the others.
  std::vector<Result<BufferInfo>> RegisterAll(const std::vector<MemoryToRegister>& memory);

  // Where the allocation begins and ends that GPU memory of this process lies in, and its identity:
  // what is registered once for all of an allocation serves each of its pieces, for as long as this
  // still gives the same id. Where the `bytes` go on into allocations that are mapped right behind
  // (cuMemMap; so torch does with expandable_segments), all of these are told as one. As
  // RegisterCuda.
  Result<CudaAllocation> FindCudaAllocation(uintptr_t device_pointer, uint64_t bytes = 1) const;

  // A piece of a dma-buf: memory of another vendor's GPU, of an FPGA, of any driver that exports
  // it. The descriptor must be open for reading and writing; `fd` is borrowed for the call. The
  // memory is used in place for as long as the buffer lives. INVALID_ARGUMENT (BAD_HANDLE) for what
  // is not a dma-buf.
  Result<BufferInfo> RegisterDmaBuf(const std::string& name, int fd, uint64_t offset_bytes,
                                    uint64_t bytes);

  // Names for parts of memory that is registered already, or that the daemon has allocated: ranges,
  // or arrays with their shape, which others then name without knowing where they lie. All are
  // made, or none; see ViewRequest. A view goes with its memory, or by DeleteBuffer, which leaves
  // the memory. One that is there already, with the same name and place, is returned as it is. For
  // the memory's owner; 1 to 4,096 at a time. ALREADY_EXISTS (NAME_TAKEN), NOT_FOUND,
  // PERMISSION_DENIED (NOT_OWNER), OUT_OF_RANGE, RESOURCE_EXHAUSTED (QUOTA), and INVALID_ARGUMENT
  // for arrays that repeat or overlap their elements.
  Result<std::vector<BufferInfo>> CreateViews(const std::vector<ViewRequest>& views);
  Result<BufferInfo> CreateView(const ViewRequest& view);

  // The memory of a buffer of this node in this process, be it the daemon's or another process's,
  // without a copy, if the caller may read and write all of it; see mapped_buffer.h. `buffer`: a
  // name or an id, also with this node's name ("east:a"). NOT_FOUND, PERMISSION_DENIED;
  // RESOURCE_EXHAUSTED (QUOTA, [limits] mappings); FAILED_PRECONDITION (NOT_SHAREABLE) for memory
  // that no other process can map, or that its owner alone may, (PID_NAMESPACE) for memory of
  // cudaMalloc across PID namespaces, (OTHER_NODE) for another node's, and (NO_PEER_ACCESS,
  // DRIVER_FAILED) where that GPU does not reach it.
  Result<MappedBuffer> MapBuffer(const std::string& buffer, const MapOptions& options = {});
  // Whether the daemon reads and writes files of its clients itself, as far as the last session
  // told.
  bool moves_files() const;
  // An open file as one end of a transfer of this node, which then moves its bytes without a pass
  // of this process: set offset_bytes and bytes, and use it once. It counts with the rights with
  // which it was opened; both descriptors are borrowed for the call. `direct_fd`: the same file
  // opened with O_DIRECT, for the way past the page cache; -1: none. `name` is for messages and
  // lists. UNIMPLEMENTED (NOT_SERVED) where the daemon moves no files. file_copy.h does all this by
  // itself.
  Result<Endpoint> PassFile(const std::string& name, int fd, int direct_fd = -1);

  // `node` empty: this one. `name` may be an id. CANCELLED once a stop is requested,
  // DEADLINE_EXCEEDED where it takes longer than `limit`, which is not more than
  // ConnectOptions::timeout.
  Result<BufferInfo> GetBuffer(const std::string& node, const std::string& name,
                               std::stop_token stop = {},
                               std::optional<std::chrono::milliseconds> limit = {});
  // Buffers of the node that the caller owns or has a grant on (all, for an administrator), by
  // name.
  Result<std::vector<BufferInfo>> ListBuffers(const std::string& node = {});
  // FAILED_PRECONDITION (BUFFER_IN_USE) while a transfer uses it or a client has it mapped; `force`
  // cancels those first, and takes the mappings back, for which their clients have 2 s.
  // `node` empty: this one.
  Status DeleteBuffer(const std::string& name, bool force = false, const std::string& node = {});
  // DeleteBuffer of what this client has registered, as its memory is about to go: takes 5 s at
  // most, and connects to no new daemon. No thread of this library touches the memory any more when
  // it returns, also with DEADLINE_EXCEEDED: a daemon that did not answer ends the buffer when it
  // does, or with the connection.
  Status ReleaseBuffer(const std::string& name, bool force = true);
  Result<BufferSum> SumBuffer(const Endpoint& range);

  Result<GrantInfo> CreateGrant(const CreateGrantRequest& request);
  // `buffer` empty: on all buffers of the caller, and those given to the caller; then `node` may be
  // another one.
  Result<std::vector<GrantInfo>> ListGrants(const std::string& buffer = {},
                                            const std::string& node = {});
  // Nothing that begins afterwards may use the right any more; transfers that are under way by it
  // are being ended.
  Status DeleteGrant(const GrantId& id);

  // What would happen, without doing it. FAILED_PRECONDITION (POLICY_UNMET) with every refusal
  // where no path is acceptable.
  Result<Plan> PlanTransfer(const TransferRequest& request);

  // Starts a transfer and returns it at once; a small one inside this node, with its end, if that
  // comes within 2 ms. No byte has moved when it fails.
  Result<TransferInfo> StartTransfer(const TransferRequest& request);
  Result<TransferInfo> GetTransfer(const TransferId& id);
  // The caller's transfers that this node knows (everyone's, for an administrator), newest first.
  Result<std::vector<TransferInfo>> ListTransfers();

  // Runs on the thread of the call that takes it, with the transfer now and at each change.
  using OnUpdate = std::function<void(const TransferInfo&)>;

  // Blocks until the transfer has reached its last state and returns that; CANCELLED once a stop is
  // requested, which leaves the transfer alone.
  Result<TransferInfo> WatchTransfer(const TransferId& id, const OnUpdate& on_update = {},
                                     std::stop_token stop = {});

  // Blocks until the transfer has ended, as WatchTransfer, or is UNCONFIRMED. A requested stop
  // cancels it, and is followed by the wait until nothing moves any more. The state tells how it
  // ended; see OutcomeOf.
  Result<TransferInfo> AwaitTransfer(const TransferId& id, const OnUpdate& on_update = {},
                                     std::stop_token stop = {});

  // Not ordered with streams: what the caller's streams still do to GPU memory of either end must
  // have finished (cudaStreamSynchronize) before the transfer is asked for. RunTransferAsync
  // takes a StreamOrder.
  //
  // StartTransfer, then AwaitTransfer; CANCELLED, with nothing started, where the stop came first.
  //
  // A transfer between two buffers, at least one of them of this node, with everything but the ends
  // and the policy at its default, goes by a ring of shared memory from the second time on that
  // these two buffers are named, where the path that the daemon takes without a policy meets the
  // request's: up to 64 KiB of any memory, and up to 4 GiB where a GPU's copy engine moves them
  // inside this node, or from GPU memory of another daemon of this host into this node's. It is
  // checked, carried out and refused as any other, but cannot be cancelled once it has begun; a
  // waiting thread spins for a while before it sleeps. What is returned of it lacks the plan and,
  // in the receipt, `refused`, `attempts` and `evidence`: GetTransfer has them.
  Result<TransferInfo> RunTransfer(const TransferRequest& request, const OnUpdate& on_update = {},
                                   std::stop_token stop = {});

  // The same for callers that have more to do; see async.h. Neither blocks. What is returned at
  // once is FORKED, or BAD_NAME, and then no callback runs; all else is in the future.
  Result<TransferFuture> RunTransferAsync(const TransferRequest& request,
                                          TransferCallbacks callbacks = {});
  // Without a copy of the request, which is not null: for what is asked for again and again.
  Result<TransferFuture> RunTransferAsync(std::shared_ptr<const TransferRequest> request,
                                          TransferCallbacks callbacks = {});
  // Ordered with work on CUDA streams, by no ring. FAILED_PRECONDITION (STREAM_CAPTURING) where one
  // of them is capturing a graph, which goes on as before, and (DRIVER_FAILED, DRIVER_TOO_OLD) with
  // what the driver says; nothing was queued then.
  Result<TransferFuture> RunTransferAsync(const TransferRequest& request, const StreamOrder& order,
                                          TransferCallbacks callbacks = {});
  // As AwaitTransfer, for a transfer that any program has started.
  Result<TransferFuture> AwaitTransferAsync(const TransferId& id, TransferCallbacks callbacks = {});

  // The same bytes into buffers of many nodes, along a chain: each destination takes each piece of
  // the payload from the one before it, as soon as that has it. So the source sends the payload
  // once, unless it is small (see BroadcastRequest::piece_bytes). The destinations on the source's
  // node are first in the chain, those of one node are neighbours, and the others follow as they
  // are named. If a destination fails or does not answer, or if nothing arrives there for 5 s,
  // those behind it take from another one (see BroadcastOrigin). One that stopped answering gets
  // what it lacks if it answers again within BroadcastRequest::retry_for. The caller needs the
  // right to read each destination that others are to take from. Watchers see an arrival for each
  // piece.
  //
  // Blocks until each destination has all bytes or has failed, and no transfer is under way any
  // more. Where one does not end within 5 s of its cancellation, as its node does not answer, that
  // node may still write. Returns what became of each destination, in their order, also of those
  // that do not answer at the beginning. All other errors that can be found before a byte moves are
  // returned by the call: INVALID_ARGUMENT (BAD_ARGUMENT) for no destination, more than 1,024, or
  // one that shares bytes with another or with the source, (SIZE_MISMATCH) for one of the wrong
  // length; NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION (POLICY_UNMET) and the like as for a
  // transfer, and (CALLED_FROM_CALLBACK) in a callback of this client. A stop cancels what is under
  // way; the outcomes then say CANCELLED. The transfers are ordered by this process: they end with
  // it.
  Result<std::vector<BroadcastCopy>> Broadcast(const BroadcastRequest& request,
                                               const OnBroadcast& on_update = {},
                                               std::stop_token stop = {});

  // Begins a transfer whose parts the caller orders with StartTransfer (`part_of`), one after
  // another or some at once. It is listed, watched and cancelled as one, and has one receipt, in
  // which the caller's own pass is a step. It ends with EndSeries, with its deadline, when it is
  // cancelled, or when the connection ends. RESOURCE_EXHAUSTED (QUOTA) for too many at once.
  Result<TransferInfo> OpenSeries(const SeriesRequest& request);
  // The caller has done all that it will: everything has arrived where `failure` is OK, and
  // `checksum` is then that of the whole payload as the caller read or wrote it (of the parts'
  // algorithm, in hexadecimal; empty where none was asked for). Parts that still run are cancelled
  // with a failure, and are FAILED_PRECONDITION without one. Returns the series, unchanged where it
  // has ended.
  Result<TransferInfo> EndSeries(const TransferId& id, const Status& failure = {},
                                 const std::string& checksum = {});

  // Asks for the end of a transfer and returns it as it is; any thread may do so while others watch
  // it. One that has ended is returned unchanged.
  Result<TransferInfo> CancelTransfer(const TransferId& id);

  // What arrives in a buffer of this node, from now on: every transfer that has written into it, of
  // any node, once all of its bytes are there, and every message. `buffer` empty: in all that this
  // client has registered, or registers later. For the buffer's owner and administrators.
  //
  // Each is told once, in the order in which they ended at this node. So what a writer does once
  // its transfer has succeeded, or its message was sent, comes after that; of two that it has under
  // way together, either may come first. Transfers of at most 64 KiB that have gone by a ring of
  // shared memory (see RunTransfer) are not told: those with a message never go by it.
  //
  // What a watch has told stays counted until it is acknowledged (see ArrivalWatch). Where
  // [limits] arrivals leave no room, transfers with a message and messages fail with
  // RESOURCE_EXHAUSTED (QUOTA) before any byte moves, and so none is lost; arrivals without one are
  // left out, and ArrivalBatch::missed says how many.
  //
  // Without a watcher, arrivals are not reported and transfers with a message are refused, unless
  // the buffer was made to keep arrivals (CreateBufferRequest, ConnectOptions): then all of it
  // waits for the next watch, within the same limits, and nothing goes into it by a ring.
  Result<ArrivalWatch> WatchArrivals(const std::string& buffer = {});

  // Tells the destination's watcher; no bytes move. Needs the right to write into some of it.
  // After a transfer that was seen to succeed, also by a ring, it comes after that transfer's
  // bytes, and its arrival: so a reader tells the owner of a buffer on another node
  // that it has finished reading. FAILED_PRECONDITION (NOT_WATCHED), RESOURCE_EXHAUSTED (QUOTA);
  // after UNAVAILABLE or DEADLINE_EXCEEDED it may have been told, and is safely repeated where it
  // has a request id.
  Status SendMessage(const MessageRequest& request);

  // This node or a peer as seen from here, with its capabilities. `name` empty: this one.
  Result<NodeInfo> GetNode(const std::string& name = {});

  // Probes the way from a node to this one, or, where the name is empty, that of every connected
  // peer and this node's own devices. Takes as long as that takes. If the caller is no
  // administrator what was probed lately is not probed again.
  Result<std::vector<ProbeInfo>> ProbeNode(const std::string& name = {});
  // This node first, then its peers by name.
  Result<std::vector<NodeInfo>> ListNodes();
  // The folders that a node exports to the caller; `node` empty: this one. Others do not appear.
  Result<std::vector<ExportInfo>> ListExports(const std::string& node = {});

  // Administrators only: closes what a GPU holds open. FAILED_PRECONDITION (DEVICE_IN_USE).
  Status ReleaseDevice(const std::string& device);
  // Administrators only: "debug", "info", "warning", "error"; returns the previous level.
  Result<std::string> SetLogLevel(const std::string& level);
  // Administrators only: the node takes no new transfers (UNAVAILABLE, DRAINING), and what runs
  // ends as it would; or it takes them again. Returns how many run: now or, with `wait`, once none
  // does (then ABORTED where the drain was ended meanwhile).
  Result<uint64_t> SetDraining(bool draining, bool wait = false);

 private:
  explicit Client(std::shared_ptr<client::Connection> connection);

  std::shared_ptr<client::Connection> connection_;
  std::shared_ptr<client::AsyncLoop> loop_;
};

}  // namespace onecopy
