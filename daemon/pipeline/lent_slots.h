// Slots that are filled here and read by the peer of a connection.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "daemon/pipeline/slot_share.h"
#include "transport/core/contracts/link.h"

namespace onecopy::pipeline {

// Each filling has a key of its own, which opens the bytes that were put into the slot and no
// others, from when they are there until the peer has read them. Outlives the chain that fills the
// slots, until the last key has ended. On the connection's executor, except for Close.
class LentSlots : public std::enable_shared_from_this<LentSlots> {
 public:
  LentSlots(std::shared_ptr<Connection> connection, SlotShareRef share);

  const SlotShare& share() const { return *share_; }
  // What to call when there is a slot available.
  void OnMore(std::function<void()> more);

  std::optional<uint32_t> Take(uint64_t bytes);
  // Of a slot that was taken and is filled. `lent` runs unless the chain has ended by then.
  using Lent = UniqueFunction<void(Result<RemoteKey>)>;
  void Lend(uint32_t slot, uint64_t bytes, Lent lent);
  // The peer has read the slot: how many bytes that were, or nothing where it has no such slot.
  std::optional<uint64_t> HasRead(uint32_t slot);
  void NoMore() { share_->NoMore(); }

  // Nothing is being filled any more, nor will be.
  void EndFilling();

  // Any thread, once: takes back what is lent. `done` runs, on the executor, when nothing of it is
  // being filled or read.
  void Close(Task done);

 private:
  enum class State { kFilling, kOpening, kOpen, kEnding };
  struct Slot {
    State state = State::kFilling;
    uint64_t bytes = 0;
    RemoteKey key;
  };

  void End(uint32_t slot, bool read);
  void Free(uint32_t slot);
  void ConcludeIfClosed();

  const std::shared_ptr<Connection> connection_;
  const SlotShareRef share_;
  std::function<void()> more_;
  std::map<uint32_t, Slot> slots_;  // that are in use
  bool filling_ended_ = false;
  Task closed_;
};

}  // namespace onecopy::pipeline
