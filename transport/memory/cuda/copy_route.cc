#include "transport/memory/cuda/copy_route.h"

namespace onecopy::cuda {
namespace {

// Between GPUs two chunks keep the copy engine busy, and two more cover the polling. Chunks that
// cross PCIe are small, so that a pipeline's next stage can begin early.
constexpr unsigned kPeerDepth = 4;
constexpr unsigned kHostDepth = 8;

}  // namespace

StepList CudaCopyRoute::StepBy(const std::string& node, const Parts& parts, const char* by) {
  return std::make_shared<const std::vector<Step>>(
      1,
      Step{.node = node, .from = parts.from->step_name(), .to = parts.to->step_name(), .by = by});
}

CudaCopyRoute::CudaCopyRoute(const std::string& node, Parts parts)
    : parts_(std::move(parts)),
      steps_(StepBy(node, parts_, "copy-engine")),
      kernel_steps_(StepBy(node, parts_, "gpu-kernel")),
      turn_{{}, reinterpret_cast<uintptr_t>(this)} {}

void CudaCopyRoute::Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) {
  const StridedCopy piece{.from = from_offset, .to = to_offset, .bytes = bytes};
  if (Status wrong = CheckInside({&piece, 1}, parts_.from->bytes(), parts_.to->bytes());
      !wrong.ok()) {
    return Refuse(std::move(wrong), std::move(done));
  }
  const uintptr_t from = parts_.from_address + from_offset;
  const uintptr_t to = parts_.to_address + to_offset;
  if (executor().InThread()) {
    return parts_.gpu->copier().Copy(turn_, parts_.direction, from, to, bytes, steps_,
                                     std::move(done));
  }
  executor().Post([this, from, to, bytes, done = std::move(done)]() mutable {
    parts_.gpu->copier().Copy(turn_, parts_.direction, from, to, bytes, steps_, std::move(done));
  });
}

void CudaCopyRoute::CopyMany(std::vector<StridedCopy> copies, Done done) {
  if (Status wrong = CheckInside(copies, parts_.from->bytes(), parts_.to->bytes()); !wrong.ok()) {
    return Refuse(std::move(wrong), std::move(done));
  }
  for (StridedCopy& copy : copies) {
    copy.from += parts_.from_address;
    copy.to += parts_.to_address;
  }
  auto copy = [this, copies = std::move(copies), done = std::move(done)]() mutable {
    parts_.gpu->copier().CopyMany(turn_, parts_.direction, std::move(copies),
                                  {kernel_steps_, steps_}, std::move(done));
  };
  if (executor().InThread()) return copy();
  executor().Post(std::move(copy));
}

void CudaCopyRoute::Cancel() {
  // The route may have gone by then, and the GPU's context with it, but not the thread's GPU.
  executor().Post([gpu = &*parts_.gpu, direction = parts_.direction, channel = turn_.channel] {
    gpu->CancelCopies(direction, channel);
  });
}

void CudaCopyRoute::Refuse(Status why, Done done) {
  executor().Post([this, why = std::move(why), done = std::move(done)]() mutable {
    done(std::move(why), steps_);
  });
}

Status CudaCopyRoute::Prove(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) {
  if (parts_.one_pass == nullptr || bytes == 0) return OkStatus();
  const StridedCopy piece{.from = from_offset, .to = to_offset, .bytes = bytes};
  ONECOPY_RETURN_IF_ERROR(CheckInside({&piece, 1}, parts_.from->bytes(), parts_.to->bytes()));
  const OnePass::Seen seen = parts_.one_pass->Look(parts_.way, parts_.from_address + from_offset,
                                                   parts_.to_address + to_offset, bytes);
  proof_ = seen.evidence;
  return seen.status;
}

unsigned CudaCopyRoute::depth() const {
  const bool host = IsOverPcie(parts_.direction);
  return host ? kHostDepth : kPeerDepth;
}

uint64_t CudaCopyRoute::chunk_bytes() const {
  const bool host = IsOverPcie(parts_.direction);
  return host ? parts_.gpu->options().host_chunk_bytes : parts_.gpu->options().peer_chunk_bytes;
}

}  // namespace onecopy::cuda
