// The copies of one GPU: streams, events, and what is under way.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "transport/core/base/competition.h"
#include "transport/core/base/fair_queue.h"
#include "transport/core/contracts/memory.h"
#include "transport/memory/cuda/copy_stream.h"
#include "transport/memory/cuda/leaf_sums.h"
#include "transport/memory/cuda/scatter_kernel.h"
#include "transport/os/threads/event_loop.h"
#include "transport/shim/cuda.h"

namespace onecopy::cuda {

class Gpu;

// What moves scattered pieces: the kernel, copy engines, or whichever suits their size. A kernel
// that does not work on a GPU gives way to copy engines, and the receipt's steps say which it was.
enum class Scattering { kAuto, kKernel, kCopyEngine };

// The GPU's thread only, with its context current; the context must be open throughout.
class Copier {
 public:
  using Done = CopyRoute::Done;

  explicit Copier(Gpu& gpu) : gpu_(gpu), kernel_(gpu), leaf_sums_(gpu) {}
  ~Copier();  // no copy may be under way
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  CUresult Open();

  // Whose copy it is, and which of its copies keep their order: see FairQueue.
  struct Turn {
    Flow flow;
    uint64_t channel = 0;
  };
  // Begins a copy between addresses that this GPU reaches, at once, or, while those of several
  // owners compete, when it is its turn. Host memory must be pinned, else the driver would copy it
  // twice. `done` runs exactly once, from Poll, with `steps`; copies of one channel and direction
  // complete in order. `bytes` may be 0.
  void Copy(const Turn& turn, Direction direction, uintptr_t from, uintptr_t to, uint64_t bytes,
            StepList steps, Done done);
  // The same for many copies between addresses, by the kernel or by copy engines, as suits them;
  // `done` hears which by the steps.
  struct ScatterSteps {
    StepList by_kernel;
    StepList by_engine;
  };
  void CopyMany(const Turn& turn, Direction direction, std::vector<StridedCopy> copies,
                const ScatterSteps& steps, Done done);
  // Copies of that channel that wait for their turn end with CANCELLED.
  void Cancel(Direction direction, uint64_t channel);
  void Zero(CUdeviceptr address, uint64_t bytes, Done done);
  // Sums at most LeafSums::kMostLeaves leaves; see LeafSums. Fills `sums` before `done` runs.
  // NOT_APPLICABLE if this GPU cannot run the kernel.
  void SumLeaves(CUdeviceptr first, std::span<SumDigest> sums,
                 UniqueFunction<void(const Status&)> done);

  // A copy in this direction will soon be asked for. What the driver does for the first one after a
  // while takes far longer (its code has left the caches), so it is done for a few bytes that mean
  // nothing: by a copy engine, since what takes the compute engine would wait until other
  // processes' kernels have had their time. To a peer they go to its `scratch()`; `warm` runs when
  // nothing of this is under way any more, also where nothing was done.
  void WarmUp(Direction direction, CUdeviceptr peer_scratch, UniqueFunction<void()> warm);
  // Bytes of this GPU that are never read, kScratchBytes of them; 0 where there was no room.
  CUdeviceptr scratch() const { return scratch_; }

  // Completes what has ended; true while something is under way.
  bool Poll();
  // Waits for what is under way, and completes it.
  void Settle();

 private:
  struct Operation {
    uint64_t bytes = 0;
    CUevent event = nullptr;  // null: it failed to start, or had nothing to do
    Status failure;
    StepList steps;
    Done done;
    ScatterKernel::List list;   // that the kernel reads, if it was launched
    uint64_t kernel_bytes = 0;  // of a kernel; else 0
    os::Clock::time_point submitted = {};
  };
  struct Waiting {
    Operation operation;
    UniqueFunction<void(Operation)> begin;
  };
  // Of each direction, so that they overlap.
  struct Queue {
    CopyStream stream;
    std::deque<Operation> operations;  // under way
    uint64_t bytes = 0;                // of these
    FairQueue<Waiting> waiting{kFairTurnBytes};
    Competition competition;
    os::Clock::time_point free = {};  // when the last one ended
  };

  Queue& QueueOf(Direction direction) { return queues_[static_cast<size_t>(direction)]; }
  // Calls `begin` with the operation, now or when it is its turn.
  template <typename Begin>
  void InTurn(const Turn& turn, Direction direction, uint64_t cost, Operation operation,
              Begin begin);
  bool HasRoom(Direction direction) const;
  void BeginMany(Direction direction, const std::vector<StridedCopy>& copies,
                 const ScatterSteps& steps, Operation operation);
  CUresult Wake(Direction direction, CUdeviceptr peer_scratch, CopyStream& stream);
  // Submits work to the direction's stream by `begin`, and follows it with an event. `list` is what
  // `begin` has taken from the kernel's lists, `kernel_bytes` the payload of a kernel.
  template <typename Begin>
  void Start(Direction direction, Operation operation, const Begin& begin,
             const ScatterKernel::List* list = nullptr, uint64_t kernel_bytes = 0);
  bool ByKernel(const std::vector<StridedCopy>& copies, bool over_pcie);
  // What kernels have lately waited for the compute engine, which other processes may use; nothing
  // where none was launched lately.
  os::Clock::duration KernelWait() const;
  void NoteKernel(const Queue& queue, const Operation& ended);
  void Enqueue(Queue& queue, Operation operation);
  CUresult TakeEvent(CUevent* event);
  void PollQueue(Direction direction);

  Gpu& gpu_;
  std::array<Queue, kDirections> queues_;
  std::vector<CUevent> idle_events_;
  CUdeviceptr scratch_ = 0;       // what WarmUp copies, a piece for each direction's stream
  void* host_scratch_ = nullptr;  // likewise, of pinned host memory
  ScatterKernel kernel_;
  LeafSums leaf_sums_;
  os::Clock::duration kernel_wait_{};
  os::Clock::time_point kernel_seen_ = {};
};

}  // namespace onecopy::cuda
