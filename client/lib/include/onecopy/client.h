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

#include "onecopy/buffer.h"
#include "onecopy/host_buffer.h"
#include "onecopy/node.h"
#include "onecopy/result.h"
#include "onecopy/transfer.h"

namespace onecopy {

namespace client {
class Connection;
}  // namespace client

struct ConnectOptions {
  // The daemon's run directory. Empty: $ONECOPY_RUN_DIR; else /run/onecopy, if it has an
  // attach.sock; else $XDG_RUNTIME_DIR/onecopy.
  std::string run_dir = {};
  std::string program = "onecopy-client";  // name and version of this program, for the daemon's log
  // How long the daemon may take for a call that asks for something it knows (Get…, List…, grants,
  // nodes, cancelling) and for attaching.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  // Whether small transfers may go by memory that is shared with the daemon; see RunTransfer.
  bool use_ring = true;
  // The CUDA driver's library, for RegisterCuda: the one by which the memory was made. Empty: the
  // system's.
  std::string cuda_library = {};
};

// Thread-safe. Every method blocks until the daemon has answered; those that make the daemon work
// (creating, registering, deleting and summing buffers, taking grants back, planning and starting
// transfers) for as long as that takes, the others at most `ConnectOptions::timeout`
// (DEADLINE_EXCEEDED). Any call may fail with UNAVAILABLE (DAEMON_UNREACHABLE) once the daemon has
// gone: a Client does not reconnect, because what it had registered went too.
//
// What the client registered lives until it is deleted or the connection ends: when the Client and
// every HostBuffer made by it are gone, or the process ends. Transfers that were started go on
// without the Client, unless they use what it registered.
class Client {
 public:
  // UNAVAILABLE (DAEMON_UNREACHABLE) when no daemon answers, or (PEER_INCOMPATIBLE) when it speaks
  // no protocol version that this library speaks.
  static Result<Client> Connect(const ConnectOptions& options = {});

  Client(Client&&) noexcept = default;
  Client& operator=(Client&&) noexcept = default;
  ~Client();

  // Name of this node, the daemon's version, and the run directory that was found.
  const std::string& node() const;
  const std::string& daemon_version() const;
  const std::string& run_dir() const;

  // Asks the daemon for nothing: OK when it serves.
  Status Ping();

  // A zeroed buffer that the daemon owns; it stays after this process. ALREADY_EXISTS (NAME_TAKEN),
  // RESOURCE_EXHAUSTED, or the reason why the memory is not viable.
  Result<BufferInfo> CreateBuffer(const CreateBufferRequest& request);

  // Memory of this process, made to be shared, zeroed. `name` empty: the daemon chooses one.
  Result<HostBuffer> CreateHostBuffer(const std::string& name, uint64_t bytes);

  // A piece of the caller's own memfd, which must be sealed with F_SEAL_SHRINK and be open for
  // reading and writing; `fd` is borrowed for the call. INVALID_ARGUMENT (BAD_HANDLE).
  Result<BufferInfo> RegisterMemfd(const std::string& name, int fd, uint64_t offset_bytes,
                                   uint64_t bytes);

  // GPU memory of this process, at any offset inside an allocation of cudaMalloc, or of cuMemCreate
  // with a POSIX file descriptor handle. Delete the buffer before the memory is freed.
  // FAILED_PRECONDITION (NOT_SHAREABLE, PID_NAMESPACE) for memory that cannot be shared, with the
  // remedy.
  Result<BufferInfo> RegisterCuda(const std::string& name, uintptr_t device_pointer,
                                  uint64_t bytes);

  // A piece of a dma-buf: memory of another vendor's GPU, of an FPGA, of any driver that exports
  // it. The descriptor must be open for reading and writing; `fd` is borrowed for the call. The
  // memory is used in place for as long as the buffer lives. INVALID_ARGUMENT (BAD_HANDLE) for what
  // is no dma-buf.
  Result<BufferInfo> RegisterDmaBuf(const std::string& name, int fd, uint64_t offset_bytes,
                                    uint64_t bytes);

  // `node` empty: this one. `name` may be an id. CANCELLED once a stop is requested,
  // DEADLINE_EXCEEDED where it takes longer than `limit`, which is not more than
  // ConnectOptions::timeout.
  Result<BufferInfo> GetBuffer(const std::string& node, const std::string& name,
                               std::stop_token stop = {},
                               std::optional<std::chrono::milliseconds> limit = {});
  // Buffers of the node that the caller owns or has a grant on (all, for an administrator), by
  // name.
  Result<std::vector<BufferInfo>> ListBuffers(const std::string& node = {});
  // FAILED_PRECONDITION (BUFFER_IN_USE) while a transfer uses it; `force` cancels those first.
  Status DeleteBuffer(const std::string& name, bool force = false);
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

  // StartTransfer, then AwaitTransfer; CANCELLED, with nothing started, where the stop came first.
  //
  // A transfer of at most 64 KiB between two buffers, at least one of them of this node, with its
  // length said at the source and everything but the ends at its default, goes by a ring of shared
  // memory from the second time on that these two buffers are named, where the daemon can have it
  // so. It is checked, carried out and refused as any
  // other; a waiting thread spins for a while before it sleeps. What is returned of it lacks the
  // plan and, in the receipt, `refused`, `attempts` and `evidence`: GetTransfer has them.
  Result<TransferInfo> RunTransfer(const TransferRequest& request, const OnUpdate& on_update = {},
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

  // This node or a peer as seen from here, with its capabilities. `name` empty: this one.
  Result<NodeInfo> GetNode(const std::string& name = {});

  // Probes the way from a node to this one, or, where the name is empty, that of every connected
  // peer and this node's own devices. Takes as long as that takes. For whoever is no administrator
  // what was probed lately is not probed again.
  Result<std::vector<ProbeInfo>> ProbeNode(const std::string& name = {});
  // This node first, then its peers by name.
  Result<std::vector<NodeInfo>> ListNodes();

  // Administrators only: closes what a GPU holds open. FAILED_PRECONDITION (DEVICE_IN_USE).
  Status ReleaseDevice(const std::string& device);
  // Administrators only: "trace", "debug", "info", "warning", "error"; returns the previous level.
  Result<std::string> SetLogLevel(const std::string& level);

 private:
  explicit Client(std::shared_ptr<client::Connection> connection);

  std::shared_ptr<client::Connection> connection_;
};

}  // namespace onecopy
