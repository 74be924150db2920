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
  uint64_t slab_bytes = uint64_t{64} << 20;  // of a slab; larger ones for what does not fit
  uint64_t initial_bytes = 0;                // registered when the pool is made
  uint64_t limit_bytes = UINT64_MAX;         // of all slabs; the daemon's [limits] hold beside it
};

struct PoolSlab {
  std::byte* data = nullptr;
  BufferInfo buffer;  // as the present session knows it
};

// Host memory that the daemon maps, too. Slabs are HostBuffers: made as they are needed, registered
// anew after a restart of the daemon (an endpoint() is then asked for anew), and kept until Trim or
// the pool's end. Thread-safe, and keeps the client's connection. A call blocks for the daemon
// where a slab is made or goes, and then the others with it.
//
// Host memory has no streams: a `stream` other than 0 is INVALID_ARGUMENT (BAD_ARGUMENT); what uses
// a piece, GPU or transfer, must have ended before it is given back. In a child of the process that
// made it, every call fails with FAILED_PRECONDITION (FORKED), as the memory is shared with the
// parent.
class Pool final : public MemoryResource {
 public:
  // The pieces go with it, also those not given back; transfers that use them are cancelled, and
  // waited for.
  ~Pool() override;

  // RESOURCE_EXHAUSTED (QUOTA) for the pool's limit, or the daemon's on buffers, and (NO_MEMORY);
  // as Client for a daemon that has gone.
  Result<void*> Allocate(uint64_t bytes, StreamHandle stream = 0) override;
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

  std::vector<PoolSlab> slabs() const;  // by address
  PoolStatistics statistics() const;

 private:
  friend class Client;
  struct State;
  explicit Pool(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace onecopy
