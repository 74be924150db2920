#include "onecopy/pool.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "client/lib/calls/fork_guard.h"
#include "client/lib/calls/wire.h"
#include "client/lib/pool/gpu_slabs.h"
#include "client/lib/pool/gpu_streams.h"
#include "client/lib/pool/host_slabs.h"
#include "client/lib/pool/pool_core.h"
#include "client/lib/session/connection.h"
#include "onecopy/client.h"
#include "onecopy/reasons.h"

namespace onecopy {

struct Pool::State {
  // The caller's lock may be another process's, held for ever: this comes before any.
  Status CheckProcess() const { return client::ForkGuard::CheckObject(made_in, "pool"); }
  // What the core knows the stream by. `freeing`: memory that goes back, not memory that comes.
  Result<StreamHandle> KeyOf(StreamHandle stream, bool freeing = false) const {
    if (stream == 0) return stream;
    if (streams != nullptr) {
      return freeing ? streams->KeyOfFreeing(stream) : streams->KeyOf(stream);
    }
    return Status(
        Code::kInvalidArgument, reasons::kBadArgument,
        "a pool of host memory has no streams, and stream " + std::to_string(stream) + " was named",
        "wait for the stream first, then free without a stream");
  }
  client::StreamOrder& Order() {
    if (streams == nullptr) return none;
    return *streams;
  }

  const uint64_t made_in = client::ForkGuard::Generation();
  std::optional<int> cuda_device;
  std::unique_ptr<client::PoolSlabs> slabs;
  std::unique_ptr<client::GpuStreams> streams;  // null: of host memory
  client::NoStreams none;
  std::unique_ptr<client::PoolCore> core;  // goes first
};

Pool::Pool(std::unique_ptr<State> state) : state_(std::move(state)) {}

Pool::~Pool() {
  // Neither the driver nor a lock that another thread held can be used in a child.
  if (!state_->CheckProcess().ok()) static_cast<void>(state_.release());
}

Result<void*> Pool::Allocate(uint64_t bytes, StreamHandle stream) {
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  ONECOPY_ASSIGN_OR_RETURN(const StreamHandle key, state_->KeyOf(stream));
  return state_->core->Allocate(bytes, key);
}

Result<void*> Pool::AllocateIdle(uint64_t bytes) {
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->core->AllocateIdle(bytes);
}

Status Pool::Deallocate(void* pointer, uint64_t bytes, StreamHandle stream) {
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  ONECOPY_ASSIGN_OR_RETURN(const StreamHandle key, state_->KeyOf(stream, true));
  return state_->core->Deallocate(pointer, bytes, key);
}

Result<Endpoint> Pool::endpoint(const void* pointer, std::optional<uint64_t> bytes) const {
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  const Status not_here(Code::kNotFound, reasons::kBufferNotFound,
                        "this memory was not allocated from the pool",
                        "pass an address that Allocate returned and that is not freed");
  const auto place = state_->core->Find(pointer);
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
  auto found = state_->slabs->EndpointOf(
      place->slab.data, static_cast<uint64_t>(at - place->slab.data), bytes.value_or(left));
  if (!found) return not_here;
  return *std::move(found);
}

Status Pool::Grow(uint64_t bytes) {
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->core->Grow(bytes);
}

Result<uint64_t> Pool::Trim(uint64_t keep_bytes) {
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->core->Trim(keep_bytes);
}

Status Pool::ReleaseStream(StreamHandle stream) {
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  if (state_->streams == nullptr) return state_->KeyOf(stream).status();
  ONECOPY_ASSIGN_OR_RETURN(const auto keys, state_->streams->EndCaptures(stream));
  if (keys.empty()) return state_->core->ReleaseStream(0);  // the default one, however named
  for (const StreamHandle key : keys) ONECOPY_RETURN_IF_ERROR(state_->core->ReleaseStream(key));
  state_->streams->Forget(keys);
  return OkStatus();
}

std::optional<int> Pool::cuda_device() const { return state_->cuda_device; }

Status Pool::Follow(StreamHandle later, StreamHandle earlier) {
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  if (later == earlier) return OkStatus();
  if (state_->streams == nullptr) return state_->KeyOf(later != 0 ? later : earlier).status();
  return state_->streams->FollowNow(later, earlier);
}

Status Pool::Synchronize() {
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->streams == nullptr ? OkStatus() : state_->streams->WaitForAll();
}

std::vector<PoolSlab> Pool::slabs() const {
  return state_->CheckProcess().ok() ? state_->slabs->List() : std::vector<PoolSlab>();
}

PoolStatistics Pool::statistics() const {
  if (!state_->CheckProcess().ok()) return {};
  PoolStatistics now = state_->core->statistics();
  now.bytes_managed = state_->slabs->managed_bytes();
  return now;
}

namespace {

Status CheckOptions(const PoolOptions& options) {
  ONECOPY_RETURN_IF_ERROR(client::CheckText("the pool's name", options.name));
  if (options.slab_bytes == 0 || options.slab_bytes > uint64_t{1} << 62) {
    return {Code::kInvalidArgument, reasons::kBadSize,
            "a slab of " + std::to_string(options.slab_bytes) + " bytes",
            "leave out slab_bytes: the default is 64 MiB"};
  }
  if (options.initial_bytes > options.limit_bytes) {
    return {Code::kInvalidArgument, reasons::kBadSize, "initial_bytes exceeds limit_bytes",
            "raise limit_bytes or lower initial_bytes"};
  }
  if (options.pinned && options.cuda_device) {
    return {Code::kInvalidArgument, reasons::kBadArgument, "`pinned` was set for GPU memory",
            "leave out `pinned`: it applies to host memory"};
  }
  if (options.managed_overflow && !options.cuda_device) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "managed_overflow was set for host memory",
            "set cuda_device to a GPU, or leave out managed_overflow"};
  }
  return OkStatus();
}

}  // namespace

Result<std::shared_ptr<Pool>> Client::CreatePool(const PoolOptions& options) {
  ONECOPY_RETURN_IF_ERROR(connection_->CheckProcess());
  ONECOPY_RETURN_IF_ERROR(CheckOptions(options));
  auto state = std::make_unique<Pool::State>();
  state->cuda_device = options.cuda_device;
  auto granularity = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  if (options.cuda_device) {
    ONECOPY_ASSIGN_OR_RETURN(auto driver, connection_->Cuda());
    ONECOPY_ASSIGN_OR_RETURN(const auto gpu,
                             client::GpuDevice::Open(std::move(driver), *options.cuda_device));
    ONECOPY_ASSIGN_OR_RETURN(auto slabs, client::GpuSlabs::Open(connection_, gpu, options));
    granularity = slabs->granularity();
    state->slabs = std::move(slabs);
    state->streams = std::make_unique<client::GpuStreams>(gpu);
  } else {
    client::GpuDeviceRef pinned_by;
    if (options.pinned) {
      ONECOPY_ASSIGN_OR_RETURN(auto driver, connection_->Cuda());
      ONECOPY_ASSIGN_OR_RETURN(pinned_by, client::GpuDevice::OpenAny(std::move(driver)));
    }
    state->slabs =
        std::make_unique<client::HostSlabs>(Client(connection_), options.name, pinned_by);
  }
  const client::PoolCoreOptions core{options.slab_bytes, options.limit_bytes, granularity};
  state->core = std::make_unique<client::PoolCore>(core, *state->slabs, state->Order());
  std::shared_ptr<Pool> pool(new Pool(std::move(state)));
  if (options.initial_bytes > 0) ONECOPY_RETURN_IF_ERROR(pool->Grow(options.initial_bytes));
  return pool;
}

}  // namespace onecopy
