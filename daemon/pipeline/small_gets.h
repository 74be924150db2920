// Small copies from another node: each is one get.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/pipeline/small_outcomes.h"
#include "daemon/pipeline/sum_message.h"
#include "daemon/pipeline/summed_end.h"
#include "transport/core/contracts/link.h"
#include "transport/core/contracts/small_copy_route.h"

namespace onecopy::pipeline {

// Gets that are begun between two marks go to the connection's thread together: waking it costs
// more than a get does.
class SmallGets final : public SmallCopyRoute {
 public:
  struct Source {
    std::shared_ptr<Connection> connection;
    ChannelId channel = 0;
    RemoteKey key;
    Flow flow = {};              // as in GetRequest
    uint64_t begin = 0;          // where the key's bytes begin, in the source's buffer
    std::shared_ptr<void> held;  // goes with the route
    // The channel on which the source answers with checksums (SumServer); 0: none.
    ChannelId sums = 0;
  };
  // Finds out why the key is good no more (ACCESS_DENIED), which a link cannot tell. Runs at most
  // once, on the connection's thread; `told` may run on any.
  using Explain = UniqueFunction<void(const Status& denied, UniqueFunction<void(Status)> told)>;

  // `into` is registered with the link. Listens from now on for checksums.
  SmallGets(Source source, RegionRef into, Explain explain, SmallOutcomes::Failed failed);
  ~SmallGets() override;

  Status Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) override;
  bool sums() const override { return source_.sums != 0 && SummedEnd::Works(*into_); }
  Status BeginSummed(uint64_t from_offset, uint64_t to_offset, uint64_t bytes,
                     uint64_t* copy) override;
  Result<SmallSum> SumOf(uint64_t copy) override;
  uint64_t Mark() override;
  bool Reached(uint64_t mark, Status* failure) override;
  void Cancel() override;
  std::shared_ptr<const SmallSteps> steps() const override { return steps_; }

 private:
  // Shared with the connection's thread.
  struct Shared;

  const Source source_;
  const RegionRef into_;
  const std::shared_ptr<SmallSteps> steps_ = std::make_shared<SmallSteps>();
  const std::shared_ptr<Shared> shared_;

  // Begun since the last mark.
  std::vector<GetRequest> batch_;
  std::vector<SumAsked> asked_;
  uint64_t begun_ = 0;
};

}  // namespace onecopy::pipeline
