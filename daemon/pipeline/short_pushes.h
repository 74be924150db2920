// Small copies to another node, which gets each when it is told to.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/pipeline/push_message.h"
#include "daemon/pipeline/short_outcomes.h"
#include "transport/core/link.h"
#include "transport/core/short_route.h"

namespace onecopy::pipeline {

// The owner's half; the reader's is ShortServer. What is begun between two marks goes in one
// message, up to kMaxPushes of them.
class ShortPushes final : public ShortRoute {
 public:
  struct Way {
    std::shared_ptr<Connection> connection;  // on which the other node reads
    ChannelId channel = 0;
    StepList planned;            // by the reader, which alone sees what was done
    std::shared_ptr<void> held;  // goes with the route
  };

  // Listens from now on.
  ShortPushes(Way way, ShortOutcomes::Failed failed);
  ~ShortPushes() override;

  Status Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) override;
  uint64_t Mark() override;
  bool Reached(uint64_t mark, Status* failure) override;
  // Call it once the reader can get nothing any more: what was not answered counts as failed.
  void Cancel() override;
  std::shared_ptr<const ShortSteps> steps() const override { return steps_; }

 private:
  // Shared with the connection's thread.
  struct Shared;

  const Way way_;
  const std::shared_ptr<const ShortSteps> steps_;
  const std::shared_ptr<Shared> shared_;
  std::vector<Push> batch_;  // begun since the last mark
  uint64_t begun_ = 0;
};

}  // namespace onecopy::pipeline
