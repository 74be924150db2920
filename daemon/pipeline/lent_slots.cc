#include "daemon/pipeline/lent_slots.h"

#include <utility>
#include <vector>

namespace onecopy::pipeline {

LentSlots::LentSlots(std::shared_ptr<Connection> connection, SlotShareRef share)
    : connection_(std::move(connection)), share_(std::move(share)) {}

void LentSlots::OnMore(std::function<void()> more) {
  more_ = more;
  share_->OnMore(std::move(more));
}

std::optional<uint32_t> LentSlots::Take(uint64_t bytes) {
  const auto piece = share_->Take(bytes);
  if (!piece) return std::nullopt;
  slots_[piece->first] = {};
  return piece->first;
}

void LentSlots::Lend(uint32_t slot, uint64_t bytes, Lent lent) {
  Slot& filled = slots_.at(slot);
  filled.state = State::kOpening;
  filled.bytes = bytes;
  connection_->Lend(
      {share_->slab(), share_->at(slot), bytes},
      [self = shared_from_this(), slot, lent = std::move(lent)](Result<RemoteKey> key) mutable {
        Slot& opened = self->slots_.at(slot);
        if (key.ok()) {
          opened.state = State::kOpen;
          opened.key = *key;
          if (self->closed_) self->End(slot, false);
        } else {
          self->Free(slot);
        }
        if (!self->filling_ended_ && !self->closed_) lent(std::move(key));
        self->ConcludeIfClosed();
      });
}

std::optional<uint64_t> LentSlots::HasRead(uint32_t slot) {
  const auto found = slots_.find(slot);
  if (found == slots_.end() || found->second.state != State::kOpen) return std::nullopt;
  const uint64_t bytes = found->second.bytes;
  End(slot, true);
  return bytes;
}

void LentSlots::End(uint32_t slot, bool read) {
  Slot& lent = slots_.at(slot);
  lent.state = State::kEnding;
  auto ended = [self = shared_from_this(), slot] {
    self->Free(slot);
    if (self->more_) self->more_();
    self->ConcludeIfClosed();
  };
  if (read) return connection_->EndLoan(lent.key, std::move(ended));
  connection_->Revoke(lent.key, std::move(ended));
}

void LentSlots::Free(uint32_t slot) {
  slots_.erase(slot);
  share_->Return(slot);
}

void LentSlots::EndFilling() {
  filling_ended_ = true;
  OnMore(nullptr);
  std::vector<uint32_t> filling;
  for (const auto& [slot, used] : slots_) {
    if (used.state == State::kFilling) filling.push_back(slot);
  }
  for (const uint32_t slot : filling) Free(slot);
  ConcludeIfClosed();
}

void LentSlots::Close(Task done) {
  connection_->executor().Post([self = shared_from_this(), done = std::move(done)]() mutable {
    self->closed_ = std::move(done);
    self->share_->NoMore();
    std::vector<uint32_t> open;
    for (const auto& [slot, used] : self->slots_) {
      if (used.state == State::kOpen) open.push_back(slot);
    }
    for (const uint32_t slot : open) self->End(slot, false);
    self->ConcludeIfClosed();
  });
}

void LentSlots::ConcludeIfClosed() {
  if (closed_ && slots_.empty()) std::exchange(closed_, nullptr)();
}

}  // namespace onecopy::pipeline
