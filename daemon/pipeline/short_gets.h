// Small copies from another node: each is one get.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/pipeline/short_outcomes.h"
#include "transport/core/link.h"
#include "transport/core/short_route.h"

namespace onecopy::pipeline {

// Gets that are begun between two marks go to the connection's thread together: waking it costs
// more than a get does.
class ShortGets final : public ShortRoute {
 public:
  struct Source {
    std::shared_ptr<Connection> connection;
    ChannelId channel = 0;
    RemoteKey key;
    uint64_t begin = 0;          // where the key's bytes begin, in the source's buffer
    std::shared_ptr<void> held;  // goes with the route
  };

  // `into` is registered with the link.
  ShortGets(Source source, RegionRef into, ShortOutcomes::Failed failed);

  Status Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) override;
  uint64_t Mark() override;
  bool Reached(uint64_t mark, Status* failure) override { return outcomes_.Reached(mark, failure); }
  void Cancel() override { source_.connection->CancelGets(source_.channel); }
  std::shared_ptr<const ShortSteps> steps() const override { return steps_; }

 private:
  const Source source_;
  const RegionRef into_;
  const std::shared_ptr<ShortSteps> steps_ = std::make_shared<ShortSteps>();
  ShortOutcomes outcomes_;

  std::vector<GetRequest> batch_;  // begun since the last mark
  uint64_t begun_ = 0;
  const void* seen_ = nullptr;  // the executor's: the steps that the last get took
};

}  // namespace onecopy::pipeline
