// Places that two nodes share: the owner's slots, seen from both ends of a link.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "daemon/pipeline/channel.h"
#include "daemon/pipeline/lent_slots.h"
#include "daemon/pipeline/place.h"

namespace onecopy::pipeline {

// At the owner: slots that are filled here and read by the peer. Filling one opens it and tells the
// peer; its FREE message makes it free again. Complete when the peer has read everything behind the
// payload's first `skip` bytes.
class ExportedSlots final : public Destination {
 public:
  // `channel` must outlive the ring.
  ExportedSlots(std::shared_ptr<LentSlots> slots, Channel& channel, uint64_t bytes,
                uint64_t skip = 0);
  ~ExportedSlots() override;

  std::optional<Chunk> Reserve(uint64_t offset, uint64_t bytes) override;
  void Fill(const Chunk& chunk) override;
  bool Complete() const override { return read_ == bytes_; }

 private:
  void OnBegin() override;
  void OnMessage(const Message& message);

  const std::shared_ptr<LentSlots> slots_;
  Channel& channel_;
  const uint64_t bytes_;
  uint64_t read_;
};

// At the reader: the owner's slots, full ones first come first served. What the owner says is
// checked: each chunk of the payload behind its first `skip` bytes comes exactly once.
class RemoteSlots final : public Source {
 public:
  // `slot_bytes` as the owner said; `channel` must outlive the ring. The first key that comes is
  // kept in `first_key`, for the receipt.
  RemoteSlots(Channel& channel, uint64_t bytes, uint64_t slot_bytes,
              std::shared_ptr<RemoteKey> first_key, uint64_t skip = 0);
  ~RemoteSlots() override;

  std::optional<Chunk> Peek() override;
  void Take(uint64_t bytes) override;
  void Release(const Chunk& chunk) override;

 private:
  void OnBegin() override;
  void OnMessage(const Message& message);

  Channel& channel_;
  const uint64_t bytes_;
  const uint64_t slot_bytes_;
  const uint64_t skip_;
  const std::shared_ptr<RemoteKey> first_key_;
  std::deque<Chunk> full_;
  std::map<uint32_t, RemoteKey> keys_;  // by slot, from FULL to FREE
  uint64_t key_bytes_ = 0;              // of all of them
  std::vector<bool> seen_;              // by chunk of what comes
};

}  // namespace onecopy::pipeline
