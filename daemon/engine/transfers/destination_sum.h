// The checksum of a transfer's destination.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "daemon/engine/base/move.h"
#include "daemon/engine/staging/checksum.h"

namespace onecopy::engine {

// Computed while the source's node computes its own. Engine thread. Keeps itself alive while it
// reads, and the region with it.
class DestinationSum : public std::enable_shared_from_this<DestinationSum> {
 public:
  DestinationSum(Checksums& checksums, Owner payer, Area destination)
      : checksums_(checksums), payer_(std::move(payer)), destination_(std::move(destination)) {}

  // Once.
  void Start();
  // Runs `then` once the reading has ended: at once if it has already. One caller at a time.
  void WhenKnown(Reply<digest::TreeSum> then);
  // Ends the reading early, with CANCELLED.
  void Stop() { *stop_ = true; }

 private:
  Checksums& checksums_;
  const Owner payer_;
  Area destination_;
  const Checksums::StopFlag stop_ = std::make_shared<std::atomic<bool>>(false);
  std::optional<Result<digest::TreeSum>> sum_;
  Reply<digest::TreeSum> then_;
};

}  // namespace onecopy::engine
