// The copies of one GPU: streams, events, and what is under way.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "transport/core/memory.h"
#include "transport/memory/cuda/scatter_kernel.h"
#include "transport/shim/cuda.h"

namespace onecopy::cuda {

class Gpu;

// What moves scattered pieces: the kernel, copy engines, or whichever suits their size. A kernel
// that does not work on a GPU gives way to copy engines, and the receipt's steps say which it was.
enum class Scattering { kAuto, kKernel, kCopyEngine };

// Each has a stream of its own, so that they overlap.
enum class Direction { kToGpu, kFromGpu, kToPeer, kInside };
inline constexpr size_t kDirections = 4;

// One copy on a stream of the current context; the GPU reaches both ends, and host memory is
// pinned.
CUresult SubmitCopy(const shim::CudaApi& api, Direction direction, uintptr_t from, uintptr_t to,
                    uint64_t bytes, CUstream stream);

// The GPU's thread only, with its context current; the context must be open throughout.
class Copier {
 public:
  using Done = CopyRoute::Done;

  explicit Copier(Gpu& gpu) : gpu_(gpu), kernel_(gpu) {}
  ~Copier();  // no copy may be under way
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  CUresult Open();

  // Begins a copy between addresses that this GPU reaches; host memory must be pinned, else the
  // driver would copy it twice. `done` runs exactly once, from Poll, with `steps`; copies of one
  // direction complete in order. `bytes` may be 0.
  void Copy(Direction direction, uintptr_t from, uintptr_t to, uint64_t bytes, StepList steps,
            Done done);
  // The same for many copies between addresses, by the kernel or by copy engines, as suits them;
  // `done` hears which by the steps.
  struct ScatterSteps {
    StepList by_kernel;
    StepList by_engine;
  };
  void CopyMany(Direction direction, std::vector<StridedCopy> copies, const ScatterSteps& steps,
                Done done);
  void Zero(CUdeviceptr address, uint64_t bytes, Done done);

  // A copy in this direction will soon be asked for. What the driver does for the first one after a
  // while takes far longer (its code has left the caches), so it is done for one that means
  // nothing.
  void Awaken(Direction direction);

  // Completes what has ended; true while something is under way.
  bool Poll();

 private:
  struct Operation {
    CUevent event = nullptr;  // null: it failed to start, or had nothing to do
    Status failure;
    StepList steps;
    Done done;
    ScatterKernel::List list;  // that the kernel reads, if it was launched
  };
  struct Queue {
    CUstream stream = nullptr;
    std::deque<Operation> operations;
  };

  // Submits work to the direction's stream by `begin`, and follows it with an event. `list` is what
  // `begin` has taken from the kernel's lists.
  template <typename Begin>
  void Start(Direction direction, Operation operation, const Begin& begin,
             const ScatterKernel::List* list = nullptr);
  bool ByKernel(const std::vector<StridedCopy>& copies, bool over_pcie);
  CUresult Submit(Direction direction, const StridedCopy& copy, CUstream stream);
  void Enqueue(Queue& queue, Operation operation);
  CUresult TakeEvent(CUevent* event);
  void PollQueue(Queue& queue);

  Gpu& gpu_;
  std::array<Queue, kDirections> queues_;
  std::vector<CUevent> idle_events_;
  CUdeviceptr scratch_ = 0;  // that Awaken copies inside, a piece for each direction's stream
  ScatterKernel kernel_;
};

}  // namespace onecopy::cuda
