// Memory in pieces, of buffers that are registered once: Client::CreatePool.
//
//   auto pool = client->CreatePool({.limit_bytes = uint64_t{1} << 30});
//   if (!pool) return Fail(pool.status());
//   auto frame = (*pool)->Allocate(1 << 20);
//   if (!frame) return Fail(frame.status());
//   auto from = (*pool)->endpoint(*frame);   // no registration, no call of the daemon
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
  // Slabs are buffers NAME.1, NAME.2, …; empty: as the daemon calls them.
  std::string name = {};
  // Memory of that GPU, by its number in this process (cuDeviceGet's); absent: host memory.
  std::optional<int> cuda_device = {};
  // Of host memory: the CUDA driver pins the slabs, so that copies between them and a GPU go at the
  // bus' full rate.
  bool pinned = false;
  // Of GPU memory: slabs that do not fit there are managed memory (cuMemAllocManaged), which the
  // library's threads copy (form process-gpu: one copy more, which receipts count).
  bool managed_overflow = false;
  uint64_t slab_bytes = uint64_t{64} << 20;  // of a slab; larger ones for what does not fit
  uint64_t initial_bytes = 0;                // registered when the pool is made
  uint64_t limit_bytes = UINT64_MAX;         // of all slabs; the daemon's [limits] hold beside it
};

struct PoolSlab {
  void* data = nullptr;
  BufferInfo buffer;     // as the present session knows it
  bool managed = false;  // managed memory, since the GPU had no room
};

// Memory that the daemon maps, too: of the host, or of one GPU. Slabs are made as they are needed,
// registered again after a restart of the daemon (endpoint() must then be called again), and kept
// until Trim or the pool's end. Thread-safe, and keeps the client's connection. A call blocks for
// the daemon where a slab is made or goes, and then the others with it. In a child of the process
// that made it, every call fails with FAILED_PRECONDITION (FORKED), as the memory is shared with
// the parent.
//
// Host memory has no streams: a `stream` other than 0 is INVALID_ARGUMENT (BAD_ARGUMENT); what uses
// a piece, GPU or transfer, must have ended before it is given back.
//
// GPU memory follows them: what is given back may still be used by what the stream named there was
// given before, and only what comes after that on the GPU has it again. Transfers are not work of a
// stream: one must have ended before its piece is given back, or be ordered with the stream
// (RunTransferAsync with a StreamOrder whose `then` is the stream). 0 and 1 are the default stream,
// 2 is that of the calling thread; others are of the GPU's primary context, which is the CUDA
// runtime's: FAILED_PRECONDITION (DRIVER_FAILED) for another one's, whose memory stays allocated.
// A stream that captures a graph is given what is free for all, what it freed in this capture, and
// new slabs; what it frees then is for this capture alone until ReleaseStream. What it was given in
// a capture must not be given back after it before the graph's last launch. 2 is refused while it
// captures (STREAM_CAPTURING). No call but Synchronize spoils a capture, on any thread. The memory
// is not zeroed.
//
// The GPU's slabs lie in one range of addresses that is reserved when the pool is made: of
// limit_bytes, but of no more than twice the GPU's memory. It and pinned host memory need the CUDA
// driver (ConnectOptions::cuda_library), and hold its primary context open.
class Pool final : public MemoryResource {
 public:
  // The pieces go with it, also those not given back; transfers that use them are cancelled, and
  // waited for.
  ~Pool() override;

  // RESOURCE_EXHAUSTED (QUOTA) for the pool's limit, or the daemon's on buffers, and (NO_MEMORY)
  // with what is free where a GPU is full; as Client for a daemon that has gone.
  Result<void*> Allocate(uint64_t bytes, StreamHandle stream = 0) override;
  // Memory that nothing on the GPU uses any more, for what is not work of a stream and shall begin
  // at once, as a transfer that is ordered with none. Where streams may still use all that was
  // given back, and there can be no other slab, the host waits for them. As Allocate otherwise.
  Result<void*> AllocateIdle(uint64_t bytes);
  Status Deallocate(void* pointer, uint64_t bytes = 0, StreamHandle stream = 0) override;

  // A range for a transfer, from any byte of a piece on; absent `bytes`: up to the piece's end.
  // NOT_FOUND (BUFFER_NOT_FOUND) for memory that is not allocated here, OUT_OF_RANGE
  // (RANGE_OUT_OF_BUFFER) beyond the piece's end.
  Result<Endpoint> endpoint(const void* pointer, std::optional<uint64_t> bytes = {}) const;

  // A slab more, of that size at least.
  Status Grow(uint64_t bytes);
  // Gives back slabs of which nothing is in use, as long as `keep_bytes` are left; the bytes that
  // went.
  Result<uint64_t> Trim(uint64_t keep_bytes = 0);

  // Of GPU memory: what is given to `later` from now on begins after all that was given to
  // `earlier` until now, and the host waits for nothing. Fails as Allocate for streams, and with
  // FAILED_PRECONDITION (STREAM_CAPTURING) where one of them captures a graph.
  Status Follow(StreamHandle later, StreamHandle earlier);
  // Of GPU memory: the host waits for all that the GPU was given in this process, whichever streams
  // there are or were. FAILED_PRECONDITION (DRIVER_FAILED) while one captures a graph, which that
  // may end.
  Status Synchronize();
  // Of GPU memory, before a stream is destroyed: waits for the work it had when it last gave
  // memory back, which any stream can then have; so is what it freed while it captured graphs,
  // which must have ended and are launched no more. Without it what is known of the stream stays;
  // of one that captured, a later stream with its handle would release that.
  // FAILED_PRECONDITION (STREAM_CAPTURING) while it captures.
  Status ReleaseStream(StreamHandle stream);

  std::optional<int> cuda_device() const;  // as PoolOptions
  std::vector<PoolSlab> slabs() const;     // by address
  PoolStatistics statistics() const;

 private:
  friend class Client;
  struct State;
  explicit Pool(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace onecopy
