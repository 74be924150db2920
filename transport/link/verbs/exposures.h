// What a connection's peer may read, and the end of that right.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/core/link.h"
#include "transport/link/verbs/lane.h"
#include "transport/link/verbs/leases.h"
#include "transport/link/verbs/memory_region.h"

namespace onecopy::verbs {

// Threads of a link for calls that block.
struct SlowCalls {
  os::EventLoop& loop;
  std::shared_ptr<Leases> leases;
};

// Lives on its connection's thread.
class Exposures {
 public:
  using Done = UniqueFunction<void(Result<RemoteKey>)>;
  using LaneList = std::vector<std::unique_ptr<Lane>>;

  Exposures(std::string peer, os::EventLoop& home, MemoryTable& memory, SlowCalls slow,
            const LaneList& lanes)
      : peer_(std::move(peer)), home_(home), memory_(memory), slow_(slow), lanes_(lanes) {}

  // What a key may reach where the device has no windows: the region, by a registration that the
  // next exposure to this peer shares, or this span of host memory and nothing else.
  enum class Reach { kRegion, kSpan };
  // `keep` is held until `done` has run.
  void Add(const Span& span, Reach reach, std::shared_ptr<void> keep, Done done);
  // Whether there is such an exposure; the connection then tells the peer and calls End.
  uint64_t next_id() const { return next_id_; }
  bool Has(uint64_t id) const { return exposed_.contains(id); }
  // The device takes no read of it any more when `done` runs.
  void End(uint64_t id, std::shared_ptr<void> keep, Task done);
  // The lanes are closed: their windows are gone.
  void Clear();

 private:
  struct Exposure {
    Span span;
    Key key;
    std::vector<uint64_t> leases;   // of this exposure, to be given back
    std::vector<DeviceMemory> own;  // registrations of its span, to be ended
    size_t pending = 0;             // binds, or leases, under way
    Status failure;
    Done done;
  };
  using ExposureRef = std::shared_ptr<Exposure>;

  void Bind(const ExposureRef& exposure, unsigned lane, const DeviceMemory& memory);
  void Lease(const ExposureRef& exposure, const std::shared_ptr<Device>& device,
             const std::shared_ptr<void>& keep);
  void RegisterOwn(const ExposureRef& exposure, const std::shared_ptr<Device>& device,
                   const std::shared_ptr<void>& keep);
  void SetKey(Exposure& exposure, const std::shared_ptr<Device>& device, Key::Remote remote);
  void OneDone(const ExposureRef& exposure);
  // What is to run, if anything, when the devices have forgotten what was registered for it.
  void GiveBack(Exposure& exposure, Task forgotten = nullptr);

  const std::string peer_;
  os::EventLoop& home_;
  MemoryTable& memory_;
  const SlowCalls slow_;
  const LaneList& lanes_;
  std::unordered_map<uint64_t, ExposureRef> exposed_;
  uint64_t next_id_ = 1;
};

}  // namespace onecopy::verbs
