#include "daemon/pipeline/remote_places.h"

#include <algorithm>
#include <cassert>

#include "transport/core/reasons.h"

namespace onecopy::pipeline {
namespace {

constexpr uint32_t kMostSlots = 1 << 20;

Status Nonsense(const char* what) {
  return {Code::kUnavailable, reasons::kLinkDown,
          std::string("the peer broke the protocol: ") + what};
}

}  // namespace

ExposedRing::ExposedRing(SlotLease lease, Channel& channel, uint64_t bytes)
    : lease_(std::move(lease)),
      channel_(channel),
      bytes_(bytes),
      free_(AllSlots(lease_)),
      announced_(lease_.slots) {}

void ExposedRing::OnBegin() {
  channel_.SetHandler([this](const Message& message) { OnMessage(message); });
}

std::optional<Cell> ExposedRing::Reserve(uint64_t offset, uint64_t bytes) {
  assert(bytes <= lease_.slot_bytes);
  if (free_.empty()) return std::nullopt;
  const uint32_t slot = free_.back();
  free_.pop_back();
  return Cell{offset, bytes, slot, lease_.first_byte + slot * lease_.slot_bytes};
}

void ExposedRing::Fill(const Cell& cell) {
  announced_[cell.index] = cell.bytes;
  if (Status sent = channel_.Send(FullMessage{cell.index, cell.offset, cell.bytes}); !sent.ok()) {
    NotifyChange(std::move(sent));
  }
}

void ExposedRing::OnMessage(const Message& message) {
  const auto* free = std::get_if<FreeMessage>(&message);
  if (free == nullptr || free->index >= announced_.size() || announced_[free->index] == 0) {
    return NotifyChange(Nonsense("it freed a slot that it did not have"));
  }
  read_ += std::exchange(announced_[free->index], 0);
  free_.push_back(free->index);
  NotifyChange();
}

RemoteRing::RemoteRing(Channel& channel, uint64_t bytes, uint64_t slot_bytes)
    : channel_(channel),
      bytes_(bytes),
      slot_bytes_(slot_bytes),
      seen_((bytes + slot_bytes - 1) / slot_bytes) {}

void RemoteRing::OnBegin() {
  channel_.SetHandler([this](const Message& message) { OnMessage(message); });
}

std::optional<Cell> RemoteRing::Peek() {
  if (full_.empty()) return std::nullopt;
  return full_.front();
}

void RemoteRing::Release(const Cell& cell) {
  if (Status sent = channel_.Send(FreeMessage{cell.index}); !sent.ok())
    NotifyChange(std::move(sent));
}

void RemoteRing::OnMessage(const Message& message) {
  if (const auto* failed = std::get_if<FailedMessage>(&message))
    return NotifyChange(failed->status);
  const auto* full = std::get_if<FullMessage>(&message);
  if (full == nullptr || full->index >= kMostSlots || full->offset % slot_bytes_ != 0 ||
      full->offset >= bytes_ || full->bytes != std::min(slot_bytes_, bytes_ - full->offset)) {
    return NotifyChange(Nonsense("it announced a chunk that is not of this transfer"));
  }
  auto seen = seen_[full->offset / slot_bytes_];
  if (seen) return NotifyChange(Nonsense("it announced a chunk twice"));
  seen = true;
  full_.push_back({full->offset, full->bytes, full->index, full->index * slot_bytes_});
  NotifyChange();
}

}  // namespace onecopy::pipeline
