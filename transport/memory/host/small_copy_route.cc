#include "transport/memory/host/small_copy_route.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "transport/core/ranges/scatter.h"
#include "transport/os/memory/copy_bytes.h"
#include "transport/os/memory/copy_regions.h"

namespace onecopy::host {
namespace {

// Bytes between two questions to the kernel, each of which takes as long as a small copy.
constexpr uint64_t kUnasked = uint64_t{1} << 20;

}  // namespace

HostSmallCopyRoute::HostSmallCopyRoute(const std::string& node, RegionRef from, RegionRef to)
    : from_(std::move(from)),
      to_(std::move(to)),
      steps_(std::make_shared<SmallSteps>(std::make_shared<const std::vector<Step>>(
          1,
          Step{.node = node, .from = from_->step_name(), .to = to_->step_name(), .by = "cpu"}))) {}

Status HostSmallCopyRoute::Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) {
  const StridedCopy copy{.from = from_offset, .to = to_offset, .bytes = bytes};
  ONECOPY_RETURN_IF_ERROR(CheckInside({&copy, 1}, from_->bytes(), to_->bytes()));
  if (bytes > unasked_) {
    const Backing* const backing = from_->backing();
    if (backing != nullptr && !backing->IsFull()) return os::CopyRegions(*from_, *to_, {&copy, 1});
    ONECOPY_RETURN_IF_ERROR(to_->CheckUsable());
    unasked_ = std::max(kUnasked, bytes);
  }
  unasked_ -= bytes;
  onecopy_copy_bytes(to_->address() + to_offset, from_->address() + from_offset, bytes);
  ONECOPY_RETURN_IF_ERROR(from_->CheckIntact());
  return to_->CheckIntact();
}

Status HostSmallCopyRoute::BeginMany(std::span<const CopyPiece> pieces, uint64_t bytes) {
  for (const CopyPiece& piece : pieces) ONECOPY_RETURN_IF_ERROR(Begin(piece.from, piece.to, bytes));
  return OkStatus();
}

}  // namespace onecopy::host
