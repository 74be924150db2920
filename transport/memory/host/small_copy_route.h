// Small copies between two host memories: done when they are begun. Otherwise as os::CopyRegions.
#pragma once

#include <memory>
#include <string>

#include "transport/core/contracts/region.h"
#include "transport/core/contracts/small_copy_route.h"

namespace onecopy::host {

class HostSmallCopyRoute final : public SmallCopyRoute {
 public:
  HostSmallCopyRoute(const std::string& node, RegionRef from, RegionRef to);

  Status Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) override;
  // As long as one copy: the thread makes them by itself.
  uint64_t most_list_bytes() const override { return kMostListBytes; }
  Status BeginMany(std::span<const CopyPiece> pieces, uint64_t bytes) override;
  uint64_t Mark() override { return 0; }
  bool Reached(uint64_t, Status*) override { return true; }
  std::shared_ptr<const SmallSteps> steps() const override { return steps_; }

 private:
  static constexpr uint64_t kMostListBytes = uint64_t{64} << 10;

  const RegionRef from_;
  const RegionRef to_;
  const std::shared_ptr<const SmallSteps> steps_;
  uint64_t unasked_ = 0;  // bytes that may go before it is asked again what memory there is
};

}  // namespace onecopy::host
