// A move inside this node: one copy, two through a slot, or three through one of each end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/engine/base/context.h"
#include "daemon/engine/base/move.h"
#include "daemon/engine/staging/slots.h"
#include "daemon/pipeline/places.h"
#include "daemon/pipeline/slot_share.h"
#include "daemon/plan/path.h"

namespace onecopy::engine {

class LocalMove final : public Move, public std::enable_shared_from_this<LocalMove> {
 public:
  // Both have the payload's length.
  LocalMove(Context& context, Slots& slots, const plan::Path& path, MoveFor whom, Area source,
            Area destination);

  void Start(Task running, Done done) override;
  void Stop(const Status& why) override;
  uint64_t bytes_done() const override { return chain_ == nullptr ? 0 : chain_->bytes_done(); }
  uint64_t life() const override;
  std::string waits_for() const override;

 private:
  using Routes = std::vector<std::shared_ptr<CopyRoute>>;

  // Slots between two copies: the common ones, or those of the client whose memory an end is.
  struct Bounce {
    std::shared_ptr<Slots> slots;
    Purpose purpose = Purpose::kReceive;
    RegionRef slab = {};
    pipeline::SlotShareRef share = {};
  };

  void AddBounces();
  void PrepareRoutes();
  void TakeSlots(Routes routes);
  void TellOfFile(const Region& end, MoveOutcome& outcome) const;
  std::string Placement() const;
  bool OfFile() const;
  uint32_t MostSlots(const Routes& routes) const;
  uint64_t MostInSlot(const Bounce& bounce, const Routes& routes) const;
  pipeline::Cut CutFor(const Routes& routes) const;
  void Run(const Routes& routes);
  // True when the move has been stopped or has failed meanwhile, and has been brought to its end.
  bool Over(const Status& step = {});
  void End(MoveOutcome outcome);

  Context& context_;
  Slots& slots_;
  const plan::Path path_;
  const MoveFor whom_;
  Area source_;
  Area destination_;
  Task running_;
  Done done_;
  std::vector<Bounce> bounces_;  // on the way
  std::shared_ptr<pipeline::Chain> chain_;
  Status stopped_;
  std::shared_ptr<LocalMove> self_;
};

}  // namespace onecopy::engine
