#include "onecopy/pool.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "client/lib/connection.h"
#include "client/lib/fork_guard.h"
#include "client/lib/host_slabs.h"
#include "client/lib/pool_core.h"
#include "client/lib/wire.h"
#include "onecopy/client.h"
#include "onecopy/reasons.h"

namespace onecopy {

struct Pool::State {
  State(Client client, const PoolOptions& options, client::PoolCoreOptions core_options)
      : cuda_device(options.cuda_device),
        slabs(std::move(client), options.name),
        core(core_options, slabs, order) {}

  // The caller's lock may be another process's, held for ever: this comes before any.
  Status CheckProcess() const { return client::ForkGuard::CheckObject(made_in); }
  Status CheckCall(StreamHandle stream) const {
    ONECOPY_RETURN_IF_ERROR(CheckProcess());
    if (stream == 0) return OkStatus();
    return {
        Code::kInvalidArgument, reasons::kBadArgument,
        "a pool of host memory has no streams, and stream " + std::to_string(stream) + " was named",
        "wait for the stream first, and leave it out"};
  }

  const std::optional<int> cuda_device;
  const uint64_t made_in = client::ForkGuard::Generation();
  client::HostSlabs slabs;
  client::NoStreams order;
  client::PoolCore core;  // goes first
};

Pool::Pool(std::unique_ptr<State> state) : state_(std::move(state)) {}
Pool::~Pool() = default;

Result<void*> Pool::Allocate(uint64_t bytes, StreamHandle stream) {
  ONECOPY_RETURN_IF_ERROR(state_->CheckCall(stream));
  return state_->core.Allocate(bytes, stream);
}

Status Pool::Deallocate(void* pointer, uint64_t bytes, StreamHandle stream) {
  ONECOPY_RETURN_IF_ERROR(state_->CheckCall(stream));
  return state_->core.Deallocate(pointer, bytes, stream);
}

Result<Endpoint> Pool::endpoint(const void* pointer, std::optional<uint64_t> bytes) const {
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  const Status not_here(Code::kNotFound, reasons::kBufferNotFound,
                        "this memory is not allocated in the pool",
                        "pass what Allocate returned, before it is given back");
  const auto place = state_->core.Find(pointer);
  if (!place) return not_here;
  const auto* const at = static_cast<const std::byte*>(pointer);
  const auto left = static_cast<uint64_t>(place->block + place->block_bytes - at);
  if (bytes.value_or(1) == 0) {
    return Status(Code::kInvalidArgument, reasons::kBadSize, "a range of no bytes",
                  "pass at least 1 byte");
  }
  if (bytes.value_or(left) > left) {
    return Status(Code::kOutOfRange, reasons::kRangeOutOfBuffer,
                  std::to_string(*bytes) +
                      " bytes do not fit into this piece of the pool, which has " +
                      std::to_string(left) + " from there on");
  }
  auto found = state_->slabs.EndpointOf(
      place->slab.data, static_cast<uint64_t>(at - place->slab.data), bytes.value_or(left));
  if (!found) return not_here;
  return *std::move(found);
}

Status Pool::Grow(uint64_t bytes) {
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->core.Grow(bytes);
}

Result<uint64_t> Pool::Trim(uint64_t keep_bytes) {
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->core.Trim(keep_bytes);
}

Status Pool::ReleaseStream(StreamHandle stream) {
  ONECOPY_RETURN_IF_ERROR(state_->CheckCall(stream));
  return state_->core.ReleaseStream(stream);
}

std::optional<int> Pool::cuda_device() const { return state_->cuda_device; }

Status Pool::Follow(StreamHandle later, StreamHandle earlier) {
  ONECOPY_RETURN_IF_ERROR(state_->CheckCall(later));
  ONECOPY_RETURN_IF_ERROR(state_->CheckCall(earlier));
  return later == earlier ? OkStatus() : state_->core.Follow(later, earlier);
}

std::vector<PoolSlab> Pool::slabs() const {
  return state_->CheckProcess().ok() ? state_->slabs.List() : std::vector<PoolSlab>();
}

PoolStatistics Pool::statistics() const {
  return state_->CheckProcess().ok() ? state_->core.statistics() : PoolStatistics();
}

Result<std::shared_ptr<Pool>> Client::CreatePool(const PoolOptions& options) {
  ONECOPY_RETURN_IF_ERROR(connection_->CheckProcess());
  ONECOPY_RETURN_IF_ERROR(client::CheckText("the pool's name", options.name));
  if (options.slab_bytes == 0 || options.slab_bytes > uint64_t{1} << 62) {
    return Status(Code::kInvalidArgument, reasons::kBadSize,
                  "a slab of " + std::to_string(options.slab_bytes) + " bytes",
                  "leave slab_bytes out: it is 64 MiB");
  }
  if (options.initial_bytes > options.limit_bytes) {
    return Status(Code::kInvalidArgument, reasons::kBadSize,
                  "the pool shall begin with more bytes than its limit",
                  "raise limit_bytes, or lower initial_bytes");
  }
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const client::PoolCoreOptions core{options.slab_bytes, options.limit_bytes, page};
  std::shared_ptr<Pool> pool(
      new Pool(std::make_unique<Pool::State>(Client(connection_), options, core)));
  if (options.initial_bytes > 0) ONECOPY_RETURN_IF_ERROR(pool->Grow(options.initial_bytes));
  return pool;
}

}  // namespace onecopy
