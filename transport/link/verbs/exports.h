// What a connection's peer may read, and the end of that right.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/core/contracts/link.h"
#include "transport/link/verbs/control_channel.h"
#include "transport/link/verbs/lanes.h"
#include "transport/link/verbs/leases.h"
#include "transport/link/verbs/memory_region.h"

namespace onecopy::verbs {

// Threads of a link for calls that block.
struct SlowCalls {
  os::EventLoop& loop;
  std::shared_ptr<Leases> leases;
};

// The owner's half of a connection. Home thread.
class Exports {
 public:
  using Done = UniqueFunction<void(Result<RemoteKey>)>;

  // `lanes` and `control` outlive it, and `control` need not be there yet.
  Exports(std::string peer, const Home& home, const MemoryTable& memory, SlowCalls slow,
          const LaneList& lanes, ControlChannel& control)
      : peer_(std::move(peer)),
        home_(home),
        memory_(memory),
        slow_(slow),
        lanes_(lanes),
        control_(control) {}

  // What a key may reach where the device has no windows: the region, by a registration that the
  // next export to this peer shares, or this span of host memory and nothing else.
  enum class Reach { kRegion, kSpan };
  void Add(const Span& span, Reach reach, Done done);
  uint64_t next_id() const { return next_id_; }
  // Asks the peer to let its reads end; one that does not within two seconds is cut off at the
  // device, which takes no read of it any more when `done` runs.
  void Revoke(uint64_t id, Task done);
  // The peer: nothing of it is being read any more.
  void OnRevoked(uint64_t id);
  // Like Revoke, without asking.
  void EndLoan(uint64_t id, Task done);

  // The connection ends, for this reason: nothing is added any more, nor the peer asked. What is
  // withdrawn from now on ends with Clear.
  void Stop(const Status& why) { stopped_ = why; }
  // The lanes are closed: their windows are gone.
  void Clear();

 private:
  struct Export {
    Span span;
    Key key;
    std::vector<uint64_t> leases;   // of this export, to be given back
    std::vector<DeviceMemory> own;  // registrations of its span, to be ended
    size_t pending = 0;             // binds, or leases, under way
    Status failure;
    Done done;
  };
  using ExportRef = std::shared_ptr<Export>;
  // What the peer has been told about, or what ends with the connection.
  struct Revocation {
    std::vector<Task> done;
    os::EventLoop::TimerId timer = 0;
  };

  void Bind(const ExportRef& exported, unsigned lane, const DeviceMemory& memory);
  void Lease(const ExportRef& exported, const std::shared_ptr<Device>& device);
  void RegisterOwn(const ExportRef& exported, const std::shared_ptr<Device>& device);
  void SetKey(Export& exported, const std::shared_ptr<Device>& device, Key::Remote remote);
  void OneDone(const ExportRef& exported);
  void End(uint64_t id, Task done);
  // What is to run, if anything, when the devices have forgotten what was registered for it.
  void GiveBack(Export& exported, Task forgotten = nullptr);

  const std::string peer_;
  const Home& home_;
  const MemoryTable& memory_;
  const SlowCalls slow_;
  const LaneList& lanes_;
  ControlChannel& control_;
  std::unordered_map<uint64_t, ExportRef> exported_;
  std::unordered_map<uint64_t, Revocation> revocations_;  // by export
  uint64_t next_id_ = 1;
  Status stopped_;  // why; OK while it is not
  bool cleared_ = false;
};

}  // namespace onecopy::verbs
