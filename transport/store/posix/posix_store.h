// Files as the kernel serves them: ext4, xfs, tmpfs, NFS and all others, by io_uring or by threads
// that wait. A lane for each user, so that what hangs holds up its owner alone.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "transport/core/mutex.h"
#include "transport/core/store.h"
#include "transport/store/posix/cached_reads.h"
#include "transport/store/posix/cut.h"
#include "transport/store/posix/held_memory.h"
#include "transport/store/posix/lane.h"
#include "transport/store/posix/mounts.h"

namespace onecopy::posix {

class PosixStore final : public Store {
 public:
  enum class Io { kAuto, kRing, kThreads };

  // Users with files open at a time.
  static constexpr size_t kMostLanes = 256;

  struct Options {
    Io io = Io::kAuto;
    Cut cut = {};
  };

  explicit PosixStore(Options options);
  // Files that are still open answer no more.
  ~PosixStore() override;

  // Not viable where `io` asks for a ring that this process may not have.
  StoreCapability Describe() const override;
  void HoldsLong(const RegionRef& memory) override { held_->Add(memory); }
  void Open(OpenFileRequest request, Opened done) override;

 private:
  using LaneKey = std::tuple<Uid, uint32_t, std::string>;

  Result<std::shared_ptr<Lane>> LaneFor(const OpenFileRequest& request);

  const Cut cut_;
  const std::shared_ptr<Mounts> mounts_ = std::make_shared<Mounts>();
  const std::shared_ptr<HeldMemory> held_ = std::make_shared<HeldMemory>();
  StoreCapability capability_;
  bool ring_ = false;
  std::shared_ptr<CachedReads> cached_reads_;  // set once
  Mutex mutex_;
  std::map<LaneKey, std::shared_ptr<Lane>> lanes_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::posix
