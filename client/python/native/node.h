// A connection to the daemon, as Python sees it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "client/python/native/arrivals.h"
#include "client/python/native/mapped.h"
#include "client/python/native/memory.h"
#include "client/python/native/pool.h"
#include "client/python/native/waiting.h"
#include "onecopy/client.h"
#include "transport/core/base/mutex.h"

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

// A request that may be made again and again, read from Python's values once.
class Prepared {
 public:
  explicit Prepared(TransferRequest request)
      : request_(std::make_shared<const TransferRequest>(std::move(request))) {}
  const std::shared_ptr<const TransferRequest>& request() const { return request_; }

 private:
  const std::shared_ptr<const TransferRequest> request_;
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
       const std::string& cuda_library, bool keep_arrivals);
  ~Node();

  const Client& client() const { return client_; }
  void Ping();

  // `node` empty: this one.
  std::string CreateBuffer(const std::string& name, uint64_t bytes, const std::string& memory,
                           const std::string& node, bool keep_arrivals);
  // Names of arrays in buffers of this node: name, buffer, offset of the first element, dtype,
  // bytes of an element, shape, strides in bytes. A list of documents.
  using View = std::tuple<std::string, std::string, uint64_t, std::string, uint64_t,
                          std::vector<uint64_t>, std::vector<uint64_t>>;
  std::string CreateViews(const std::vector<View>& views);
  std::unique_ptr<Memory> CreateMemory(const std::string& name, uint64_t bytes);
  // As PoolOptions.
  std::unique_ptr<PoolHandle> CreatePool(const std::string& name, std::optional<int> cuda_device,
                                         bool pinned, bool managed_overflow, uint64_t slab_bytes,
                                         uint64_t initial_bytes, uint64_t limit_bytes);
  std::string RegisterMemfd(const std::string& name, int fd, uint64_t offset_bytes, uint64_t bytes);
  // Memory of this process, which must stay until its buffers are deleted: (name, address, bytes,
  // on a GPU, writable) of each. A list of documents: of the buffer, or of the error that it came
  // to.
  using Piece = std::tuple<std::string, uint64_t, uint64_t, bool, bool>;
  std::string RegisterAll(const std::vector<Piece>& pieces);
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
  void ReleaseBuffer(const std::string& name, bool force);
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
  std::unique_ptr<Prepared> Prepare(const nanobind::tuple& request);
  // As Run, without updates and without a stop but Ctrl-C.
  TransferSnapshot RunPrepared(const Prepared& prepared);
  // What Client::RunTransfer takes for so many, one after another, to hold Python's calls against.
  double SecondsOf(const Prepared& prepared, uint64_t count);
  TransferSnapshot Start(const nanobind::tuple& request);
  TransferSnapshot StartPrepared(const Prepared& prepared);
  // As CopyFileToBuffer or, where it is not read, CopyBufferToFile: the request's end that is a
  // file has its path as a buffer's name.
  TransferSnapshot CopyFile(const nanobind::tuple& request, bool reads,
                            std::optional<uint64_t> offset_bytes, std::optional<uint64_t> bytes,
                            bool sync, bool write_device, const nanobind::object& on_update,
                            const std::stop_source& stop);
  // As CopyFileToEach: the request's source is the file's path as a buffer's name, and it has all
  // destinations. A snapshot for each of them.
  std::vector<TransferSnapshot> CopyFileToEach(const nanobind::tuple& request,
                                               std::optional<uint64_t> offset_bytes,
                                               std::optional<uint64_t> bytes,
                                               const nanobind::object& on_update,
                                               const std::stop_source& stop);
  // As CopyFileToBuffers or, where it is not read, CopyBuffersToFile: the request's two ends are
  // the file's path as a buffer's name; each text is a place in the file and what is there, each
  // piece a buffer's range and its place in the file, and each part of `own` memory of this
  // process, which the caller keeps. `fd` is borrowed; -1: the path is opened. A snapshot for each
  // buffer, after one for what is `own`.
  using FilePieces = std::vector<std::pair<nanobind::tuple, uint64_t>>;
  using FileTexts = std::vector<std::pair<uint64_t, nanobind::bytes>>;
  // Where in a file, an address of this process, and bytes.
  using OwnParts = std::vector<std::tuple<uint64_t, uint64_t, uint64_t>>;
  std::vector<TransferSnapshot> CopyPieces(const nanobind::tuple& request, int fd, bool reads,
                                           const FileTexts& texts, const FilePieces& pieces,
                                           bool sync, const nanobind::object& on_update,
                                           const std::stop_source& stop, const OwnParts& own);
  // As CopyFileToMemory, of an open file, into memory that the caller keeps; `destination` is what
  // it is called. On this thread: for what is small.
  TransferSnapshot ReadOwn(const std::string& path, int fd, const OwnParts& parts,
                           const nanobind::tuple& destination, std::optional<uint64_t> deadline_ms);
  // As Client::Broadcast: the request has all destinations. Of each a snapshot, and from where its
  // bytes came: the buffer, how many, and why no more, an exception or None.
  using Origin = std::tuple<std::string, uint64_t, nanobind::object>;
  using Copy = std::pair<TransferSnapshot, std::vector<Origin>>;
  std::vector<Copy> Broadcast(const nanobind::tuple& request, int64_t retry_for_ms,
                              uint64_t piece_bytes, const nanobind::object& on_update,
                              const std::stop_source& stop);
  Queued Enqueue(const nanobind::tuple& request, std::optional<uint64_t> after,
                 std::optional<uint64_t> then);
  TransferSnapshot Await(const std::string& id, const nanobind::object& on_update,
                         const std::stop_source& stop);
  TransferSnapshot GetTransfer(const std::string& id);
  std::vector<TransferSnapshot> ListTransfers();
  TransferSnapshot Cancel(const std::string& id);

  // All of this client's buffers, if `buffer` is empty.
  std::unique_ptr<Watch> WatchArrivals(const std::string& buffer);
  void Tell(const std::string& node, const std::string& buffer, const nanobind::bytes& message,
            const std::string& request_id);
  std::string ListExports(const std::string& node);

  std::string GetNode(const std::string& name);
  std::string ListNodes();

 private:
  Result<TransferInfo> RunWithFuture(std::shared_ptr<const TransferRequest> request,
                                     const std::stop_token& stop);

  Client client_;
};

}  // namespace onecopy::python
