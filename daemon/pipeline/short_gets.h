// Small copies from another node: each is one get.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/core/link.h"
#include "transport/core/short_route.h"

namespace onecopy::pipeline {

// Gets that are begun between two marks go to the connection's thread together: waking it costs
// more than a get does. Once a get has failed, so has the route.
class ShortGets final : public ShortRoute {
 public:
  struct Source {
    std::shared_ptr<Connection> connection;
    ChannelId channel = 0;
    RemoteKey key;
    uint64_t begin = 0;          // where the key's bytes begin, in the source's buffer
    std::shared_ptr<void> held;  // goes with the route
  };

  // `into` is registered with the link. `failed` runs at most once, on the connection's executor.
  ShortGets(Source source, RegionRef into, UniqueFunction<void(const Status&)> failed);

  Status Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) override;
  uint64_t Mark() override;
  bool Reached(uint64_t mark, Status* failure) override;
  void Cancel() override { source_.connection->CancelGets(source_.channel); }
  std::shared_ptr<const ShortSteps> steps() const override { return steps_; }

 private:
  void Ended(uint64_t number, const Status& status, const StepList& steps);

  const Source source_;
  const RegionRef into_;
  const std::shared_ptr<ShortSteps> steps_ = std::make_shared<ShortSteps>();

  // The asking thread's.
  std::vector<GetRequest> batch_;  // begun since the last mark
  uint64_t begun_ = 0;
  uint64_t reached_ = 0;

  // By get, modulo their number: its own number, plus one, once it has ended.
  std::array<std::atomic<uint64_t>, kMostUnderWay> ended_{};
  // The lowest number of a get that failed.
  std::atomic<uint64_t> first_failed_{UINT64_MAX};
  std::mutex mutex_;
  Status failure_;  // guarded by mutex_

  // The executor's.
  UniqueFunction<void(const Status&)> failed_;
  const void* seen_ = nullptr;  // the steps that the last get took
};

}  // namespace onecopy::pipeline
