#include "transport/memory/cuda/small_copy_route.h"

#include <utility>
#include <vector>

#include "transport/core/ranges/scatter.h"

namespace onecopy::cuda {

CudaSmallCopyRoute::CudaSmallCopyRoute(const std::string& node, CudaCopyRoute::Parts parts,
                                       std::shared_ptr<PolledLane> lane)
    : parts_(std::move(parts)),
      lane_(std::move(lane)),
      steps_(std::make_shared<SmallSteps>(CudaCopyRoute::StepBy(node, parts_, "copy-engine"))),
      list_steps_(std::make_shared<SmallSteps>(CudaCopyRoute::StepBy(node, parts_, "gpu-kernel"))) {
}

// Host memory is left to copy engines: between GPUs alone is the kernel as quick as these.
uint64_t CudaSmallCopyRoute::most_list_bytes() const {
  const bool host = IsOverPcie(parts_.direction);
  if (host || !lane_->takes_lists()) return 0;
  return PolledLane::kMostPieces * PolledLane::kMostPieceBytes;
}

Status CudaSmallCopyRoute::BeginMany(std::span<const CopyPiece> pieces, uint64_t bytes) {
  for (const CopyPiece& piece : pieces) {
    const StridedCopy copy{.from = piece.from, .to = piece.to, .bytes = bytes};
    ONECOPY_RETURN_IF_ERROR(CheckInside({&copy, 1}, parts_.from->bytes(), parts_.to->bytes()));
  }
  return lane_->BeginMany(parts_.from_address, parts_.to_address, pieces, bytes);
}

Status CudaSmallCopyRoute::Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) {
  const StridedCopy copy{.from = from_offset, .to = to_offset, .bytes = bytes};
  ONECOPY_RETURN_IF_ERROR(CheckInside({&copy, 1}, parts_.from->bytes(), parts_.to->bytes()));
  return lane_->Begin(parts_.direction, parts_.from_address + from_offset,
                      parts_.to_address + to_offset, bytes);
}

}  // namespace onecopy::cuda
