// Files as the kernel serves them: ext4, xfs, tmpfs, NFS and all others, by io_uring or by threads
// that wait. A lane for each user, so that what hangs holds up its owner alone.
#pragma once

#include <memory>

#include "onecopy/topology.h"
#include "transport/core/contracts/store.h"
#include "transport/store/posix/cached_reads.h"
#include "transport/store/posix/cut.h"
#include "transport/store/posix/held_memory.h"
#include "transport/store/posix/lanes.h"

namespace onecopy::posix {

class PosixStore final : public Store {
 public:
  enum class Io { kAuto, kRing, kThreads };

  struct Options {
    Io io = Io::kAuto;
    Cut cut = {};
    Topology topology = {};          // of this machine
    bool cached_by_threads = false;  // kAuto, as long as nothing else was measured
  };

  explicit PosixStore(Options options);
  // Files that are still open answer no more.
  ~PosixStore() override;

  // Not viable where `io` asks for a ring that this process may not have.
  StoreCapability Describe() const override;
  void HoldsLong(const RegionRef& memory) override { held_->Add(memory); }
  void Open(OpenFileRequest request, Opened done) override;

 private:
  // What threads that wait for a file system share with the store, and may outlive it with.
  struct Shared;

  StoreCapability capability_;
  const std::shared_ptr<HeldMemory> held_ = std::make_shared<HeldMemory>();
  std::shared_ptr<Shared> shared_;
};

}  // namespace onecopy::posix
