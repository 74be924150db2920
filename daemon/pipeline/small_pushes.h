// Copies to another node, which moves the bytes of each when it is told to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/pipeline/push_message.h"
#include "daemon/pipeline/small_outcomes.h"
#include "daemon/pipeline/summed_end.h"
#include "transport/core/contracts/link.h"
#include "transport/core/contracts/small_copy_route.h"

namespace onecopy::pipeline {

// The owner's half; the reader's is SmallServer. What is begun between two marks goes in one
// message, up to MaxPushes of them.
class SmallPushes final : public SmallCopyRoute {
 public:
  struct Params {
    std::shared_ptr<Connection> connection;  // on which the other node reads
    ChannelId channel = 0;
    StepList planned;            // by the reader, which alone sees what was done
    std::shared_ptr<void> held;  // goes with the route
    bool sums = false;           // the reader has agreed on sums
    // Computes the checksum that goes with a push; unset if the processor cannot read the memory.
    std::optional<SummedEnd> source = {};
  };

  // Listens from now on.
  SmallPushes(Params way, SmallOutcomes::Failed failed);
  ~SmallPushes() override;

  void SetTransfer(uint64_t number) override { transfer_ = number; }
  Status Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) override;
  bool sums() const override { return way_.sums && way_.source.has_value(); }
  Status BeginSummed(uint64_t from_offset, uint64_t to_offset, uint64_t bytes,
                     uint64_t* copy) override;
  Result<SmallSum> SumOf(uint64_t copy) override;
  uint64_t Mark() override;
  bool Reached(uint64_t mark, Status* failure) override;
  // Call it once the reader can get nothing any more: what was not answered counts as failed.
  void Cancel() override;
  std::shared_ptr<const SmallSteps> steps() const override { return steps_; }

 private:
  // Shared with the connection's thread.
  struct Shared;

  const Params way_;
  const std::shared_ptr<const SmallSteps> steps_;
  const std::shared_ptr<Shared> shared_;
  std::vector<Push> batch_;  // begun since the last mark
  uint64_t begun_ = 0;
  uint64_t transfer_ = 0;  // of the next one
};

}  // namespace onecopy::pipeline
