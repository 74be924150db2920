#include "daemon/pipeline/remote_places.h"

#include <algorithm>
#include <cassert>

#include "onecopy/reasons.h"

namespace onecopy::pipeline {
namespace {

constexpr size_t kMaxKeyBytes = size_t{4} << 20;  // of slots that are full at a time
constexpr size_t kSlotBytes = 128;                // that each takes beside its key

Status BadMessage(const char* what) {
  return {Code::kUnavailable, reasons::kLinkDown,
          std::string("the peer broke the protocol: ") + what};
}

}  // namespace

ExportedSlots::ExportedSlots(std::shared_ptr<LentSlots> slots, Channel& channel, uint64_t bytes,
                             uint64_t skip)
    : slots_(std::move(slots)), channel_(channel), bytes_(bytes), read_(skip) {}

ExportedSlots::~ExportedSlots() {
  channel_.SetHandler(nullptr);
  slots_->EndFilling();
}

void ExportedSlots::OnBegin() {
  slots_->OnMore([this] { NotifyChange(); });
  channel_.SetHandler([this](const Message& message) { OnMessage(message); });
}

std::optional<Chunk> ExportedSlots::Reserve(uint64_t offset, uint64_t bytes) {
  const auto slot = slots_->Take(bytes);
  if (!slot) return std::nullopt;
  if (offset + bytes == bytes_) slots_->NoMore();  // others may have the rest
  return Chunk{offset, bytes, *slot, slots_->share().at(*slot)};
}

void ExportedSlots::Fill(const Chunk& chunk) {
  slots_->Lend(chunk.index, chunk.bytes, [this, chunk](Result<RemoteKey> key) {
    Status sent = key.status();
    if (sent.ok()) {
      sent = channel_.Send(FullMessage{chunk.index, chunk.offset, chunk.bytes, std::move(*key)});
    }
    if (!sent.ok()) NotifyChange(std::move(sent));
  });
}

void ExportedSlots::OnMessage(const Message& message) {
  const auto* free = std::get_if<FreeMessage>(&message);
  const auto read = free == nullptr ? std::nullopt : slots_->HasRead(free->index);
  if (!read) return NotifyChange(BadMessage("it freed a slot that it did not hold"));
  read_ += *read;
  NotifyChange();
}

RemoteSlots::RemoteSlots(Channel& channel, uint64_t bytes, uint64_t slot_bytes,
                         std::shared_ptr<RemoteKey> first_key, uint64_t skip)
    : channel_(channel),
      bytes_(bytes),
      slot_bytes_(slot_bytes),
      skip_(skip),
      first_key_(std::move(first_key)),
      seen_((bytes - skip) / slot_bytes + ((bytes - skip) % slot_bytes != 0 ? 1 : 0)) {}

RemoteSlots::~RemoteSlots() {
  channel_.SetHandler(nullptr);
  for (const auto& [index, key] : keys_) channel_.connection().Release(key);
}

void RemoteSlots::OnBegin() {
  channel_.SetHandler([this](const Message& message) { OnMessage(message); });
}

std::optional<Chunk> RemoteSlots::Peek() {
  if (full_.empty()) return std::nullopt;
  return full_.front();
}

void RemoteSlots::Take([[maybe_unused]] uint64_t bytes) {
  assert(bytes == full_.front().bytes);
  full_.pop_front();
}

void RemoteSlots::Release(const Chunk& chunk) {
  const auto key = keys_.find(chunk.index);
  channel_.connection().Release(key->second);
  key_bytes_ -= key->second.size() + kSlotBytes;
  keys_.erase(key);
  if (Status sent = channel_.Send(FreeMessage{chunk.index}); !sent.ok())
    NotifyChange(std::move(sent));
}

void RemoteSlots::OnMessage(const Message& message) {
  if (const auto* failed = std::get_if<FailedMessage>(&message))
    return NotifyChange(failed->status);
  const auto* full = std::get_if<FullMessage>(&message);
  if (full == nullptr || full->offset < skip_ || (full->offset - skip_) % slot_bytes_ != 0 ||
      full->offset >= bytes_ || full->bytes != std::min(slot_bytes_, bytes_ - full->offset)) {
    return NotifyChange(BadMessage("it announced a chunk of another transfer"));
  }
  auto seen = seen_[(full->offset - skip_) / slot_bytes_];
  if (seen) return NotifyChange(BadMessage("it announced a chunk twice"));
  if (keys_.contains(full->index)) {
    return NotifyChange(BadMessage("it announced a slot that is already full"));
  }
  if (key_bytes_ > kMaxKeyBytes) {
    return NotifyChange(BadMessage("it announced more slots than a transfer can have"));
  }
  key_bytes_ += full->key.size() + kSlotBytes;
  seen = true;
  const RemoteKey& key = keys_[full->index] = full->key;
  if (first_key_->empty()) *first_key_ = key;
  full_.push_back({full->offset, full->bytes, full->index, 0, &key});
  NotifyChange();
}

}  // namespace onecopy::pipeline
