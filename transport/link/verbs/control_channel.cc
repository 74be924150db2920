#include "transport/link/verbs/control_channel.h"

#include "onecopy/reasons.h"

namespace onecopy::verbs {
namespace {

constexpr size_t kMaxEarly = 4096;

bool Carries(const Lane& lane) { return lane.usable() && lane.state() != Lane::State::kDead; }

}  // namespace

Lane* ControlChannel::Carrier() {
  if (lane_ >= 0 && Carries(*lanes_[static_cast<size_t>(lane_)])) {
    return lanes_[static_cast<size_t>(lane_)].get();
  }
  lane_ = -1;
  for (const Lane::State wanted : {Lane::State::kLive, Lane::State::kConnecting}) {
    for (size_t i = 0; lane_ < 0 && i < lanes_.size(); ++i) {
      if (Carries(*lanes_[i]) && lanes_[i]->state() == wanted) lane_ = static_cast<int>(i);
    }
  }
  return lane_ < 0 ? nullptr : lanes_[static_cast<size_t>(lane_)].get();
}

uint64_t ControlChannel::Send(FrameKind kind, uint64_t subject, std::string_view text) {
  const uint64_t number = next_number_++;
  Lane* lane = Carrier();
  unacknowledged_.push_back({number, Encode(Frame{kind, number, subject, text})});
  unacknowledged_bytes_ += unacknowledged_.back().bytes.size() + kFrameOverhead;
  if (lane != nullptr) lane->Send(unacknowledged_.back().bytes, number);
  return number;
}

void ControlChannel::OnArrived(uint64_t number) {
  while (!unacknowledged_.empty() && unacknowledged_.front().number <= number) {
    unacknowledged_bytes_ -= unacknowledged_.front().bytes.size() + kFrameOverhead;
    unacknowledged_.pop_front();
  }
}

void ControlChannel::OnLaneFailed(unsigned lane) {
  if (lane_ != static_cast<int>(lane)) return;
  if (Lane* next = Carrier()) {
    for (const Numbered& frame : unacknowledged_) next->Send(frame.bytes, frame.number);
  }
}

Status ControlChannel::OnFrame(const Frame& frame) {
  if (frame.number < next_expected_) return OkStatus();  // sent twice, as its lane died
  if (frame.number > next_expected_) {
    if (early_.size() >= kMaxEarly) {
      return {Code::kUnavailable, reasons::kLinkDown,
              "a message from the peer was lost: too many later messages have arrived"};
    }
    early_.emplace(frame.number, Encode(frame));
    return OkStatus();
  }
  ++next_expected_;
  deliver_(frame);
  while (!early_.empty() && early_.begin()->first == next_expected_) {
    const std::string next = std::move(early_.begin()->second);
    early_.erase(early_.begin());
    ++next_expected_;
    deliver_(*DecodeFrame(std::as_bytes(std::span(next))));
  }
  return OkStatus();
}

}  // namespace onecopy::verbs
