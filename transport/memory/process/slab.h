// One client's slab, and the copies that the client's library makes on request.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/core/contracts/client_slab.h"
#include "transport/core/contracts/memory.h"
#include "transport/core/ranges/scatter.h"
#include "transport/orders/daemon_end.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::process {

// What all slabs of a daemon share.
struct Shared {
  Shared(std::string node, std::chrono::milliseconds patience)
      : node(std::move(node)), patience(patience) {}

  const std::string node;
  const std::chrono::milliseconds patience;  // with a client that copies nothing
  os::LoopThread thread{"process"};          // on which all of them live
};

// A copy that has been given up while the client may still be making it keeps all others of this
// client from beginning, until the client has answered for it: so it never falls into bytes of a
// later one. See docs/decisions/process-memory.md.
class Slab final : public ClientSlab, public std::enable_shared_from_this<Slab> {
 public:
  // RESOURCE_EXHAUSTED (NO_MEMORY) where the machine has not that much left.
  static Result<std::shared_ptr<Slab>> Make(std::shared_ptr<Shared> all, uint64_t bytes,
                                            const ShareRegion& share);

  Result<Ends> OpenEnds() override;
  const RegionRef& region() const override { return region_; }
  void End(const Status& why) override;

  Executor& executor() { return all_->thread.loop(); }
  const std::string& node() const { return all_->node; }

  // Any thread. Copies between a region of the client's, by its name, and the slab: the offsets of
  // `from` and `to` are of whichever of the two that is. They lie inside both. ABORTED
  // (MEMORY_FAULT, OWNER_DIED), DEADLINE_EXCEEDED (STALLED).
  void Copy(orders::Way way, uint64_t region, std::vector<StridedCopy> copies,
            UniqueFunction<void(Status)> done);

 private:
  struct Batch {
    orders::Way way = orders::Way::kIntoSlab;
    uint64_t region = 0;
    std::vector<StridedCopy> copies;
    size_t ordered = 0;  // of them
    size_t left = 0;     // whose ends have not been heard of
    UniqueFunction<void(Status)> done;
    Status failure;
  };
  using BatchRef = std::shared_ptr<Batch>;

  Slab(std::shared_ptr<Shared> all, os::UniqueFd memory, RegionRef region, orders::DaemonEnd end)
      : all_(std::move(all)),
        memory_(std::move(memory)),
        region_(std::move(region)),
        orders_(std::move(end)) {}

  // On the thread.
  void Watch();
  void Add(const BatchRef& batch);
  void Pump();
  void OnSocket();
  void Collect();
  void Ended(const BatchRef& batch, const Status& status, size_t copies = 1);
  void LookAtTime();
  void GiveUp(const Status& why);
  void EndHere(const Status& why);

  const std::shared_ptr<Shared> all_;
  os::UniqueFd memory_;
  const RegionRef region_;
  os::UniqueFd socket_;

  // The thread's.
  orders::DaemonEnd orders_;
  // Whose copies are not all ordered: an order takes several times as much memory as a copy.
  std::deque<BatchRef> waiting_;
  std::map<uint64_t, BatchRef> under_way_;  // null: given up
  size_t given_up_ = 0;                     // of them
  os::Clock::time_point heard_;
  os::EventLoop::TimerId timer_ = 0;
  Status ended_;
};

}  // namespace onecopy::process
