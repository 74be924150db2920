// A route whose long copies end with news that another thread has to bring or send.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "transport/core/base/executor.h"
#include "transport/core/contracts/small_copy_route.h"

namespace onecopy::pipeline {

// Keeps that thread awake around the time when a copy should end: after milliseconds of
// sleep, a thread of a virtual machine takes 100 µs to wake, which is a tenth of a copy of 1 GiB.
// How long copies take is learnt from those that were alone.
class AwaitedRoute final : public SmallCopyRoute {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;

  AwaitedRoute(std::shared_ptr<SmallCopyRoute> route, std::shared_ptr<Executor> thread,
               Now now = Clock::now)
      : route_(std::move(route)), thread_(std::move(thread)), now_(std::move(now)) {}

  void SetTransfer(uint64_t number) override { route_->SetTransfer(number); }
  Status Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) override;
  uint64_t Mark() override;
  bool Reached(uint64_t mark, Status* failure) override;
  void Cancel() override { route_->Cancel(); }
  std::shared_ptr<const SmallSteps> steps() const override { return route_->steps(); }

 private:
  void StayAwake();

  const std::shared_ptr<SmallCopyRoute> route_;
  const std::shared_ptr<Executor> thread_;
  const Now now_;
  // What is under way, until all of it has ended.
  uint64_t copies_ = 0;
  uint64_t bytes_ = 0;
  uint64_t last_mark_ = 0;
  Clock::time_point begun_{};
  bool kept_ = false;            // the thread has been asked to stay awake for it
  double seconds_per_byte_ = 0;  // 0: not known yet
};

}  // namespace onecopy::pipeline
