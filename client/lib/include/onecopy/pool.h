// Memory in pieces, from buffers that are registered once: Client::CreatePool.
//
//   auto pool = client->CreatePool({.limit_bytes = uint64_t{1} << 30});
//   if (!pool) return Fail(pool.status());
//   auto frame = (*pool)->Allocate(1 << 20);
//   if (!frame) return Fail(frame.status());
//   auto from = (*pool)->endpoint(*frame);   // neither registers nor calls the daemon
//   …client->RunTransfer({.source = *from, .destination = {"west", "a"}});
//   Status done = (*pool)->Deallocate(*frame);
#pragma once

#include "onecopy/language.h"  // first

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "onecopy/buffer.h"
#include "onecopy/memory_resource.h"
#include "onecopy/pool_statistics.h"
#include "onecopy/result.h"
#include "onecopy/transfer.h"

namespace onecopy {

class Client;

struct PoolOptions {
  // The slabs (registered blocks of memory) are the buffers NAME.1, NAME.2, …. Empty: the daemon
  // chooses their names.
  std::string name = {};
  // Memory of this GPU, by its number in this process (cuDeviceGet's). Absent: host memory.
  std::optional<int> cuda_device = {};
  // For host memory: the CUDA driver pins the slabs, so that copies between them and a GPU run at
  // the bus's full rate.
  bool pinned = false;
  // For GPU memory: slabs that do not fit on the GPU are managed memory (cuMemAllocManaged). The
  // library's threads copy it (form process-gpu): one copy more, which receipts count.
  bool managed_overflow = false;
  uint64_t slab_bytes = uint64_t{64} << 20;  // of a slab; larger if an allocation needs more
  uint64_t initial_bytes = 0;                // registered when the pool is made
  uint64_t limit_bytes = UINT64_MAX;         // of all slabs; the daemon's [limits] apply, too
};

struct PoolSlab {
  void* data = nullptr;
  BufferInfo buffer;     // in the present session
  bool managed = false;  // managed memory, because the GPU was full
};

// Memory that the daemon maps, too: of the host, or of one GPU. The pool makes slabs when it needs
// them, and keeps them until Trim or its end. After a restart of the daemon, it registers them
// again; call endpoint() again then. Thread-safe. Keeps the client's connection alive. A call that
// makes or returns a slab blocks for the daemon, and other calls then wait for it. In a forked
// child of the process that made it, every call fails with FAILED_PRECONDITION (FORKED), because
// the parent shares the memory.
//
// Host memory does not know streams: a `stream` other than 0 is INVALID_ARGUMENT (BAD_ARGUMENT).
// GPU work and transfers that use a piece must have ended before you return the piece.
//
// GPU memory follows streams. Work that was queued on a stream before you return a piece on that
// stream can still use the piece; the next owner of the memory comes after that work on the GPU.
// Transfers are not work of a stream: a transfer must have ended before you return its piece, or be
// ordered with the stream (RunTransferAsync with a StreamOrder whose `then` is the stream). Streams
// 0 and 1 are the default stream, and 2 is that of the calling thread. Other streams must belong to
// the GPU's primary context, which the CUDA runtime uses: else FAILED_PRECONDITION (DRIVER_FAILED),
// and the memory stays allocated. The memory is not zeroed.
//
// A stream that captures a graph gets memory that is free for all, memory that it freed in this
// capture, and new slabs. What it frees then is only for this capture until ReleaseStream. Memory
// that it got in a capture, and did not free in that capture, must stay allocated until the last
// launch of the graph. Stream 2 is refused while it captures (STREAM_CAPTURING). Only Synchronize
// can spoil a capture, on any thread.
//
// The GPU's slabs lie in one range of addresses, which is reserved when the pool is made:
// limit_bytes, but at most twice the GPU's memory. GPU memory and pinned host memory need the CUDA
// driver (ConnectOptions::cuda_library) and hold its primary context open.
class Pool final : public MemoryResource {
 public:
  // Frees all pieces, also those that were not returned. Cancels the transfers that use them, and
  // waits for their end.
  ~Pool() override;

  // RESOURCE_EXHAUSTED (QUOTA) at the pool's limit, or at the daemon's limit on buffers;
  // (NO_MEMORY) if the GPU is full, with what is free. If the daemon has ended, fails like Client.
  Result<void*> Allocate(uint64_t bytes, StreamHandle stream = 0) override;
  // Memory that nothing on the GPU uses any more: for use at once by something that is not work of
  // a stream, such as a transfer without a StreamOrder. If streams may still use all returned
  // memory and the pool cannot add a slab, the host waits for them. Otherwise like Allocate.
  Result<void*> AllocateIdle(uint64_t bytes);
  Status Deallocate(void* pointer, uint64_t bytes = 0, StreamHandle stream = 0) override;

  // A range for a transfer, from any byte of a piece on. Without `bytes`, it goes to the piece's
  // end. NOT_FOUND (BUFFER_NOT_FOUND) for memory that is not allocated here, OUT_OF_RANGE
  // (RANGE_OUT_OF_BUFFER) beyond the piece's end.
  Result<Endpoint> endpoint(const void* pointer, std::optional<uint64_t> bytes = {}) const;

  // Adds a slab of at least this size.
  Status Grow(uint64_t bytes);
  // Returns unused slabs to the system, but keeps at least `keep_bytes`. Returns how many bytes it
  // gave back.
  Result<uint64_t> Trim(uint64_t keep_bytes = 0);

  // For GPU memory: work that is queued on `later` from now on begins after all work queued on
  // `earlier` so far. The host does not wait. Fails like Allocate for its streams, and with
  // FAILED_PRECONDITION (STREAM_CAPTURING) if one of them captures a graph.
  Status Follow(StreamHandle later, StreamHandle earlier);
  // For GPU memory: the host waits for all work that this process has queued on the GPU, on all
  // streams. FAILED_PRECONDITION (DRIVER_FAILED) while a stream captures a graph; the call may end
  // that capture.
  Status Synchronize();
  // For GPU memory: call this before you destroy a stream. Waits for the work that the stream had
  // when it last returned memory. Then any stream can use that memory, and the memory that the
  // stream freed in captures of graphs. These captures must have ended, and their graphs must not
  // be launched any more. Without this call, the pool keeps what it knows of the stream; if the
  // stream has captured, a later stream with the same handle would release its memory.
  // FAILED_PRECONDITION (STREAM_CAPTURING) while it captures.
  Status ReleaseStream(StreamHandle stream);

  std::optional<int> cuda_device() const;  // see PoolOptions
  std::vector<PoolSlab> slabs() const;     // by address
  PoolStatistics statistics() const;

 private:
  friend class Client;
  struct State;
  explicit Pool(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace onecopy
