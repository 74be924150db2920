// The slots of a pinned slab that one transfer has for the time being.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "transport/core/base/executor.h"
#include "transport/core/contracts/region.h"

namespace onecopy::pipeline {

// A slot on its way back to the pool, and the most that was put into it meanwhile.
struct UsedSlot {
  uint32_t slot = 0;
  uint64_t bytes = 0;
};

// A share changes while its transfer runs: it asks its pool for more when it has none left that is
// free and slots do come back to it, and the pool lowers its limit where others wait, down to none.
// What is above the limit goes back: at once what is free, the rest once it is. So a share keeps
// nothing that it has no use for, and may have to ask again.
//
// Give, SetLimit and Close: any thread. All else: the executor.
class SlotShare : public std::enable_shared_from_this<SlotShare> {
 public:
  // The pool; called on the executor.
  struct Pool {
    std::function<void()> want;
    // `closed`: the share takes no more, whatever was meant for it.
    std::function<void(std::vector<UsedSlot>, bool closed)> give_back;
  };

  // `id`: the pool's name for it. The pool has been asked for the first slots. `keep_first`: they
  // are kept, limit or not, until the user comes, who is going to be told of them and has something
  // to put into them.
  SlotShare(uint64_t id, Executor& executor, RegionRef slab, uint64_t slot_bytes, bool keep_first,
            Pool pool)
      : id_(id),
        executor_(executor),
        slab_(std::move(slab)),
        slot_bytes_(slot_bytes),
        pool_(std::move(pool)),
        begun_(!keep_first) {}

  uint64_t id() const { return id_; }
  const RegionRef& slab() const { return slab_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  uint64_t at(uint32_t slot) const { return slot * slot_bytes_; }  // in the slab

  void Give(std::vector<uint32_t> slots, uint32_t limit);
  void SetLimit(uint32_t limit);
  // Gives back what is free, and what is in use as soon as it is.
  void Close();

  // What to call when there are more.
  void OnMore(std::function<void()> more);

  // Neighbouring slots: as many as it takes for `bytes`, at most `together`, at least one.
  struct Piece {
    uint32_t first = 0;
    uint32_t count = 0;
  };
  std::optional<Piece> Take(uint64_t bytes, uint32_t together = 1);
  void Return(uint32_t slot);
  // Close, on the executor.
  void NoMore();

 private:
  void Want();
  void KeepToLimit();
  void Drop(uint32_t slot);
  void SendBack();

  const uint64_t id_;
  Executor& executor_;
  const RegionRef slab_;
  const uint64_t slot_bytes_;
  const Pool pool_;
  std::function<void()> more_;

  std::map<uint32_t, uint64_t> held_;  // by slot: the most that was put into it
  std::vector<uint32_t> free_;         // of them; the one to be used next at the end
  std::vector<UsedSlot> back_;         // on their way to the pool
  uint32_t limit_ = 0;
  bool begun_;             // its user has come for the first ones
  bool wanting_ = true;    // the pool has been asked
  bool returned_ = false;  // a slot has come back since the pool gave the last ones
  bool closed_ = false;
};
using SlotShareRef = std::shared_ptr<SlotShare>;

}  // namespace onecopy::pipeline
