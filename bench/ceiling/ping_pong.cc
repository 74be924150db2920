#include "bench/ceiling/ping_pong.h"

#include <algorithm>
#include <cstring>

namespace onecopy::bench {

std::span<const std::byte> Questions::Next() {
  if (sent_ == sending_.size() * sizeof(Question)) {
    sending_.clear();
    sending_.swap(waiting_);
    sent_ = 0;
  }
  return std::as_bytes(std::span(sending_)).subspan(sent_);
}

void Answers::Arrived(uint64_t bytes) {
  have_ += bytes;
  size_t at = 0;
  for (; have_ - at >= sizeof(Question); at += sizeof(Question)) {
    Question question;
    std::memcpy(&question, inbox_.data() + at, sizeof question);
    waiting_.push_back(question);
    ++arrived_;
  }
  have_ -= at;
  std::memmove(inbox_.data(), inbox_.data() + at, have_);
}

size_t Answers::Fill(Vector& vector, size_t from) const {
  size_t count = 0;
  for (size_t i = from; i < waiting_.size() && count < kVector; ++i) {
    const uint64_t sent = i == 0 ? sent_of_first_ : 0;
    vector[count++] = {source_ + waiting_[i].offset + sent, waiting_[i].bytes - sent};
  }
  return count;
}

void Answers::Sent(uint64_t bytes) {
  while (bytes > 0) {
    const uint64_t step = std::min(bytes, waiting_.front().bytes - sent_of_first_);
    bytes -= step;
    sent_of_first_ += step;
    if (sent_of_first_ < waiting_.front().bytes) continue;
    waiting_.pop_front();
    sent_of_first_ = 0;
  }
}

}  // namespace onecopy::bench
