#include "transport/memory/cuda/copy_route.h"

#include <cassert>

namespace onecopy::cuda {
namespace {

// Between GPUs two chunks keep the copy engine busy, and two more cover the polling. Chunks that
// cross PCIe are small, so that a pipeline's next stage can begin early.
constexpr unsigned kPeerDepth = 4;
constexpr unsigned kHostDepth = 8;

StepList OneStep(const std::string& node, const CudaCopyRoute::Parts& parts, const char* by) {
  return std::make_shared<const std::vector<Step>>(
      1,
      Step{.node = node, .from = parts.from->step_name(), .to = parts.to->step_name(), .by = by});
}

}  // namespace

CudaCopyRoute::CudaCopyRoute(const std::string& node, Parts parts)
    : parts_(std::move(parts)),
      steps_(OneStep(node, parts_, "copy-engine")),
      kernel_steps_(OneStep(node, parts_, "gpu-kernel")) {}

void CudaCopyRoute::Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) {
  assert(from_offset <= parts_.from->bytes() && bytes <= parts_.from->bytes() - from_offset);
  assert(to_offset <= parts_.to->bytes() && bytes <= parts_.to->bytes() - to_offset);
  const auto from = reinterpret_cast<uintptr_t>(parts_.from->address()) + from_offset;
  const auto to = reinterpret_cast<uintptr_t>(parts_.to->address()) + to_offset;
  if (executor().InThread()) {
    return parts_.gpu->copier().Copy(parts_.direction, from, to, bytes, steps_, std::move(done));
  }
  executor().Post([this, from, to, bytes, done = std::move(done)]() mutable {
    parts_.gpu->copier().Copy(parts_.direction, from, to, bytes, steps_, std::move(done));
  });
}

void CudaCopyRoute::CopyMany(std::vector<StridedCopy> copies, Done done) {
  assert(AllInside(copies, parts_.from->bytes(), parts_.to->bytes()));
  const auto from = reinterpret_cast<uintptr_t>(parts_.from->address());
  const auto to = reinterpret_cast<uintptr_t>(parts_.to->address());
  for (StridedCopy& copy : copies) {
    copy.from += from;
    copy.to += to;
  }
  auto copy = [this, copies = std::move(copies), done = std::move(done)]() mutable {
    parts_.gpu->copier().CopyMany(parts_.direction, std::move(copies), {kernel_steps_, steps_},
                                  std::move(done));
  };
  if (executor().InThread()) return copy();
  executor().Post(std::move(copy));
}

unsigned CudaCopyRoute::depth() const {
  const bool host =
      parts_.direction == Direction::kToGpu || parts_.direction == Direction::kFromGpu;
  return host ? kHostDepth : kPeerDepth;
}

uint64_t CudaCopyRoute::chunk_bytes() const {
  const bool host =
      parts_.direction == Direction::kToGpu || parts_.direction == Direction::kFromGpu;
  return host ? parts_.gpu->options().host_chunk_bytes : parts_.gpu->options().peer_chunk_bytes;
}

}  // namespace onecopy::cuda
