// A connection to the daemon, as Python sees it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "client/python/native/mapped.h"
#include "client/python/native/memory.h"
#include "client/python/native/pool.h"
#include "client/python/native/waiting.h"
#include "onecopy/client.h"
#include "transport/core/mutex.h"

namespace onecopy::python {

// A transfer as it was when the daemon last told of it; Python asks for what it wants to know.
class TransferSnapshot {
 public:
  explicit TransferSnapshot(TransferInfo info) : info_(std::move(info)) {}
  const TransferInfo& info() const { return info_; }
  std::string Text() const;      // the receipt, as `onecopy` prints it
  std::string Document() const;  // as `onecopy --json` prints it
  std::string TextOfPlan() const;
  std::string DocumentOfPlan() const;  // "null" where there is none yet

 private:
  TransferInfo info_;
};

// A transfer in the order of streams. Every method needs the GIL.
class Queued {
 public:
  explicit Queued(TransferFuture future) : future_(std::move(future)) {}
  bool done() const { return future_.done(); }
  // Without the GIL meanwhile.
  TransferSnapshot Await(const std::stop_source& stop) const;
  void Cancel() const { future_.Cancel(); }

 private:
  TransferFuture future_;
};

// Documents are `onecopy --json`'s. Every method needs the GIL and is without it while the daemon
// works. Thread-safe.
class Node {
 public:
  // As ConnectOptions.
  Node(const std::string& run_dir, const std::string& program, int64_t timeout_ms, bool use_ring,
       const std::string& cuda_library);
  ~Node();

  const Client& client() const { return client_; }
  void Ping();

  // `node` empty: this one.
  std::string CreateBuffer(const std::string& name, uint64_t bytes, const std::string& memory,
                           const std::string& node);
  std::unique_ptr<Memory> CreateMemory(const std::string& name, uint64_t bytes);
  // As PoolOptions.
  std::unique_ptr<PoolHandle> CreatePool(const std::string& name, std::optional<int> cuda_device,
                                         bool pinned, bool managed_overflow, uint64_t slab_bytes,
                                         uint64_t initial_bytes, uint64_t limit_bytes);
  std::string RegisterMemfd(const std::string& name, int fd, uint64_t offset_bytes, uint64_t bytes);
  // Memory of this process, which must stay until the buffer is deleted.
  std::string RegisterMemory(const std::string& name, uint64_t address, uint64_t bytes,
                             bool writable);
  std::string RegisterCuda(const std::string& name, uint64_t pointer, uint64_t bytes);
  // Start, bytes and number of the allocation, or of those that the bytes lie in together; nothing
  // where it cannot be shared.
  std::optional<std::tuple<uint64_t, uint64_t, uint64_t>> CudaAllocationOf(uint64_t pointer,
                                                                           uint64_t bytes) const;
  std::string RegisterDmaBuf(const std::string& name, int fd, uint64_t offset_bytes,
                             uint64_t bytes);
  // `buffer`: "weights" or "east:weights"; `device`: as this process numbers GPUs.
  std::unique_ptr<Mapped> MapBuffer(const std::string& buffer, std::optional<int> device);
  std::string GetBuffer(const std::string& node, const std::string& name);
  std::string ListBuffers(const std::string& node);
  void DeleteBuffer(const std::string& name, bool force, const std::string& node);
  std::string SumBuffer(const nanobind::tuple& range);

  std::string CreateGrant(const nanobind::tuple& range, const std::string& to, bool read,
                          bool write, std::optional<int64_t> lifetime_ms);
  std::string ListGrants(const std::string& buffer, const std::string& node);
  void DeleteGrant(const std::string& id);

  // The plan's text and document.
  std::pair<std::string, std::string> Plan(const nanobind::tuple& request);
  // Until the transfer's end; a failure is thrown.
  TransferSnapshot Run(const nanobind::tuple& request, const nanobind::object& on_update,
                       const std::stop_source& stop);
  TransferSnapshot Start(const nanobind::tuple& request);
  Queued Enqueue(const nanobind::tuple& request, std::optional<uint64_t> after,
                 std::optional<uint64_t> then);
  TransferSnapshot Await(const std::string& id, const nanobind::object& on_update,
                         const std::stop_source& stop);
  TransferSnapshot GetTransfer(const std::string& id);
  std::vector<TransferSnapshot> ListTransfers();
  TransferSnapshot Cancel(const std::string& id);

  std::string GetNode(const std::string& name);
  std::string ListNodes();

 private:
  using Pair = std::pair<std::string, std::string>;

  // Whether the client library may carry it by shared memory, at once: no thread is worth while.
  bool IsQuick(const TransferRequest& request);
  void NoteQuick(const TransferRequest& request);

  Client client_;
  Mutex mutex_;
  std::set<Pair> seen_ ONECOPY_GUARDED_BY(mutex_);  // ends of small transfers that succeeded
};

}  // namespace onecopy::python
