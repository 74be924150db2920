// A move inside this node: one copy, or two through a pinned slot.
#pragma once

#include <memory>

#include "daemon/engine/move.h"
#include "daemon/engine/parts.h"
#include "daemon/pipeline/places.h"

namespace onecopy::engine {

class LocalMove final : public Move, public std::enable_shared_from_this<LocalMove> {
 public:
  // Both have the payload's length.
  LocalMove(Parts& parts, const plan::Path& path, Area source, Area destination);

  void Start(Task running, Done done) override;
  void Stop(const Status& why) override;
  uint64_t bytes_done() const override { return chain_ == nullptr ? 0 : chain_->bytes_done(); }

 private:
  void PrepareRoutes();
  void Run(std::vector<std::shared_ptr<CopyRoute>> routes);
  void End(MoveOutcome outcome);

  Parts& parts_;
  const plan::Path path_;
  Area source_;
  Area destination_;
  Task running_;
  Done done_;
  std::optional<pipeline::SlotLease> lease_;
  std::shared_ptr<pipeline::Chain> chain_;
  Status stopped_;
  std::shared_ptr<LocalMove> self_;
};

}  // namespace onecopy::engine
