#include "transport/memory/cuda/copier.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/memory/cuda/gpu.h"
#include "transport/memory/cuda/tiling.h"

namespace onecopy::cuda {
namespace {

// What wakes the driver: a piece of each direction's, and behind them of each peer that writes
// here.
constexpr uint64_t kWakeBytes = 16;
constexpr uint64_t kMaxGpus = 64;
constexpr uint64_t kScratchBytes = (kDirections + kMaxGpus) * kWakeBytes;
// What a kernel takes by itself, at most: above it, it has waited for other processes' time slices.
constexpr double kSlowestKernel = 20e9;  // bytes a second
constexpr std::chrono::microseconds kLaunch{200};

// Given to the driver while copies of several owners compete, by direction: less would leave the
// copy engine idle between two looks at it, more is what the next owner's waits for.
constexpr std::array<uint64_t, kDirections> kMostAhead = {uint64_t{16} << 20, uint64_t{16} << 20,
                                                          uint64_t{64} << 20, uint64_t{128} << 20};

}  // namespace

Copier::~Copier() {
  for (size_t i = 0; i < kDirections; ++i) {
    Queue& queue = queues_[i];
    // Routes are gone, but what woke the driver for one of them may not have ended.
    if (!queue.operations.empty()) {
      queue.stream.Synchronize();
      PollQueue(static_cast<Direction>(i));
    }
    assert(queue.operations.empty() && queue.waiting.empty());
    queue.stream.Close();
  }
  for (CUevent event : idle_events_) gpu_.api().EventDestroy(event);
  if (scratch_ != 0) gpu_.api().MemFree(scratch_);
  if (host_scratch_ != nullptr) gpu_.api().MemFreeHost(host_scratch_);
}

CUresult Copier::Open() {
  for (Queue& queue : queues_) {
    const CUresult error = queue.stream.Open(gpu_.api(), gpu_.context());
    if (error != CUDA_SUCCESS) return error;
  }
  // Without room even for this, the first copies are slower.
  if (gpu_.api().MemAlloc(&scratch_, kScratchBytes) != CUDA_SUCCESS) scratch_ = 0;
  const CUresult pinned =
      gpu_.api().MemHostAlloc(&host_scratch_, kScratchBytes, CU_MEMHOSTALLOC_PORTABLE);
  if (pinned != CUDA_SUCCESS) host_scratch_ = nullptr;
  return CUDA_SUCCESS;
}

template <typename Begin>
void Copier::InTurn(const Turn& turn, Direction direction, uint64_t cost, Operation operation,
                    Begin begin) {
  Queue& queue = QueueOf(direction);
  queue.competition.Note(turn.flow);
  if (queue.waiting.empty() && HasRoom(direction)) return begin(std::move(operation));
  queue.waiting.Push(turn.flow, turn.channel, cost, {std::move(operation), std::move(begin)});
}

// Something is under way wherever something waits.
bool Copier::HasRoom(Direction direction) const {
  const Queue& queue = queues_[static_cast<size_t>(direction)];
  return !queue.competition.on() || queue.operations.empty() ||
         queue.bytes < kMostAhead[static_cast<size_t>(direction)];
}

void Copier::Enqueue(Queue& queue, Operation operation) {
  queue.bytes += operation.bytes;
  queue.operations.push_back(std::move(operation));
  gpu_.loop().KickPoller();
}

template <typename Begin>
void Copier::Start(Direction direction, Operation operation, const Begin& begin,
                   const ScatterKernel::List* list, uint64_t kernel_bytes) {
  operation.submitted = os::Clock::now();
  Queue& queue = QueueOf(direction);
  operation.failure = gpu_.lost();
  if (!operation.failure.ok()) return Enqueue(queue, std::move(operation));
  CUresult error = TakeEvent(&operation.event);
  if (error == CUDA_SUCCESS) error = begin(queue.stream);
  if (list != nullptr) operation.list = *list;
  operation.kernel_bytes = kernel_bytes;
  if (error == CUDA_SUCCESS) {
    error = queue.stream.Record(operation.event);
  }
  if (error != CUDA_SUCCESS) {
    // What was submitted must not outlive the operation's end, of which nothing would tell.
    queue.stream.Synchronize();
    operation.failure = gpu_.WorkFailure(error, "starting a copy on " + gpu_.ToString());
  }
  Enqueue(queue, std::move(operation));
}

void Copier::Copy(const Turn& turn, Direction direction, uintptr_t from, uintptr_t to,
                  uint64_t bytes, StepList steps, Done done) {
  InTurn(turn, direction, bytes,
         {bytes, nullptr, OkStatus(), std::move(steps), std::move(done), {}},
         [this, direction, from, to](Operation operation) {
           const uint64_t length = operation.bytes;
           if (length == 0) return Enqueue(QueueOf(direction), std::move(operation));
           Start(direction, std::move(operation),
                 [&](CopyStream& stream) { return stream.Copy(direction, from, to, length); });
         });
}

void Copier::CopyMany(const Turn& turn, Direction direction, std::vector<StridedCopy> copies,
                      const ScatterSteps& steps, Done done) {
  const uint64_t cost = CostOf(copies);
  Operation operation{PayloadOf(copies), nullptr, OkStatus(), steps.by_engine, std::move(done), {}};
  InTurn(turn, direction, cost, std::move(operation),
         [this, direction, copies = std::move(copies), steps](Operation begun) {
           BeginMany(direction, copies, steps, std::move(begun));
         });
}

void Copier::BeginMany(Direction direction, const std::vector<StridedCopy>& copies,
                       const ScatterSteps& steps, Operation operation) {
  if (copies.empty()) return Enqueue(QueueOf(direction), std::move(operation));
  const bool by_kernel = ByKernel(copies, IsOverPcie(direction));
  if (by_kernel) operation.steps = steps.by_kernel;
  const uint64_t bytes = operation.bytes;
  ScatterKernel::List list;
  Start(
      direction, std::move(operation),
      [&](CopyStream& stream) {
        if (by_kernel) return kernel_.Launch(TilesOf(copies), stream.stream(), &list);
        CUresult error = CUDA_SUCCESS;
        for (const StridedCopy& copy : copies) {
          error = stream.Copy(direction, copy);
          if (error != CUDA_SUCCESS) break;
        }
        return error;
      },
      &list, by_kernel ? bytes : 0);
}

void Copier::Cancel(Direction direction, uint64_t channel) {
  Queue& queue = QueueOf(direction);
  for (Waiting& waiting : queue.waiting.TakeChannel(channel)) {
    waiting.operation.failure = CopyCancelled();
    Enqueue(queue, std::move(waiting.operation));
  }
}

bool Copier::ByKernel(const std::vector<StridedCopy>& copies, bool over_pcie) {
  switch (gpu_.options().scatter) {
    case Scattering::kCopyEngine:
      return false;
    case Scattering::kKernel:
      return kernel_.Works(over_pcie);
    case Scattering::kAuto:
      break;
  }
  return WantsKernel(copies, over_pcie) && KernelWait() < EngineTime(copies) &&
         kernel_.Works(over_pcie);
}

os::Clock::duration Copier::KernelWait() const {
  const bool lately = os::Clock::now() - kernel_seen_ < gpu_.options().kernel_wait_lasts;
  return lately ? kernel_wait_ : os::Clock::duration();
}

void Copier::NoteKernel(const Queue& queue, const Operation& ended) {
  if (ended.kernel_bytes == 0 || !ended.failure.ok()) return;
  kernel_seen_ = os::Clock::now();
  const std::chrono::duration<double> takes(static_cast<double>(ended.kernel_bytes) /
                                            kSlowestKernel);
  const auto waited = kernel_seen_ - std::max(ended.submitted, queue.free) -
                      std::chrono::duration_cast<os::Clock::duration>(takes) - kLaunch;
  kernel_wait_ = std::max(waited, os::Clock::duration());
}

void Copier::Zero(CUdeviceptr address, uint64_t bytes, Done done) {
  Start(Direction::kInside, {0, nullptr, OkStatus(), nullptr, std::move(done), {}},
        [&](CopyStream& stream) {
          return gpu_.api().MemsetD8Async(address, 0, bytes, stream.stream());
        });
}

void Copier::SumLeaves(CUdeviceptr first, std::span<SumDigest> sums,
                       UniqueFunction<void(const Status&)> done) {
  if (!leaf_sums_.Works()) {
    return done({Code::kFailedPrecondition, reasons::kNotApplicable,
                 gpu_.ToString() + " does not run the kernel that sums its memory"});
  }
  SumDigest* told = nullptr;
  const CUresult taken = leaf_sums_.Take(&told);
  if (taken != CUDA_SUCCESS) {
    return done(gpu_.Failure(taken, "allocating room for checksums on " + gpu_.ToString(),
                             Code::kInternal, reasons::kDriverFailed));
  }
  auto ended = [this, told, sums, done = std::move(done)](const Status& status,
                                                          const StepList&) mutable {
    if (status.ok()) std::copy_n(told, sums.size(), sums.data());
    leaf_sums_.GiveBack(told);
    done(status);
  };
  Start(Direction::kInside, {0, nullptr, OkStatus(), nullptr, std::move(ended), {}},
        [&](CopyStream& stream) {
          return leaf_sums_.Launch(first, static_cast<uint32_t>(sums.size()), told,
                                   stream.stream());
        });
}

void Copier::WarmUp(Direction direction, CUdeviceptr peer_scratch, UniqueFunction<void()> warm) {
  const bool to_peer = direction == Direction::kToPeer;
  const bool room = scratch_ != 0 && (to_peer ? peer_scratch != 0 : host_scratch_ != nullptr);
  if (!room || !QueueOf(direction).operations.empty()) return warm();
  auto done = [warm = std::move(warm)](const Status&, const StepList&) mutable { warm(); };
  Start(direction, {0, nullptr, OkStatus(), nullptr, std::move(done), {}},
        [&](CopyStream& stream) { return Wake(direction, peer_scratch, stream); });
}

CUresult Copier::Wake(Direction direction, CUdeviceptr peer_scratch, CopyStream& stream) {
  const uint64_t at = static_cast<size_t>(direction) * kWakeBytes;
  const CUdeviceptr here = scratch_ + at;
  const uintptr_t host = reinterpret_cast<uintptr_t>(host_scratch_) + at;
  switch (direction) {
    case Direction::kToGpu:
      return stream.Copy(direction, host, here, kWakeBytes);
    case Direction::kToPeer: {
      const auto writer = static_cast<uint64_t>(gpu_.info().driver_ordinal) % kMaxGpus;
      return stream.Copy(direction, here, peer_scratch + (kDirections + writer) * kWakeBytes,
                         kWakeBytes);
    }
    case Direction::kFromGpu:
    case Direction::kInside:
      break;
  }
  return stream.Copy(Direction::kFromGpu, here, host, kWakeBytes);
}

CUresult Copier::TakeEvent(CUevent* event) {
  if (idle_events_.empty()) return gpu_.api().EventCreate(event, CU_EVENT_DISABLE_TIMING);
  *event = idle_events_.back();
  idle_events_.pop_back();
  return CUDA_SUCCESS;
}

bool Copier::Poll() {
  bool busy = false;
  for (size_t i = 0; i < kDirections; ++i) PollQueue(static_cast<Direction>(i));
  for (const Queue& queue : queues_) busy |= !queue.operations.empty();
  return busy;
}

void Copier::Settle() {
  const auto waits = [](const Queue& queue) { return !queue.waiting.empty(); };
  do {
    for (Queue& queue : queues_) queue.stream.Synchronize();
    Poll();
  } while (std::any_of(queues_.begin(), queues_.end(), waits));
}

void Copier::PollQueue(Direction direction) {
  Queue& queue = QueueOf(direction);
  // Bounded by what was there at the start: a completion may begin the next copy.
  for (size_t left = queue.operations.size(); left > 0; --left) {
    Operation& head = queue.operations.front();
    if (head.event != nullptr && head.failure.ok()) {
      const CUresult result = gpu_.api().EventQuery(head.event);
      if (result == CUDA_ERROR_NOT_READY) return;
      if (result != CUDA_SUCCESS) {
        head.failure = gpu_.WorkFailure(result, "copying on " + gpu_.ToString());
      }
    }
    Operation ended = std::move(head);
    queue.operations.pop_front();
    queue.bytes -= ended.bytes;
    if (ended.event != nullptr) idle_events_.push_back(ended.event);
    if (ended.list.tiles != nullptr) kernel_.GiveBack(ended.list);
    NoteKernel(queue, ended);
    queue.free = os::Clock::now();
    gpu_.loop().PollerFound();
    ended.done(ended.failure, ended.steps);
    while (!queue.waiting.empty() && HasRoom(direction)) {
      Waiting next = queue.waiting.Pop();
      next.begin(std::move(next.operation));
    }
  }
}

}  // namespace onecopy::cuda
