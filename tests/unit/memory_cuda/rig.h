// Memory of GPUs over the fake driver, whose functions a test may wrap; and what the wrappers saw.
#pragma once

#include <algorithm>
#include <atomic>

#include "tests/conformance/memory/bytes.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "transport/memory/cuda/cuda_memory.h"
#include "transport/os/memory/dma_buf.h"

namespace onecopy::cuda {

using testing::Bytes;
using testing::CopyManyNow;
using testing::CopyNow;
using testing::FakeCudaFunction;
using testing::FakeCudaPath;
using testing::HostRegion;
using testing::Pattern;
using testing::ReadAll;
using testing::ScopedEnvironment;
using testing::WriteAll;

// The fake driver's functions, to be called by what wraps them.
inline const shim::CudaApi* fake = nullptr;
inline std::atomic<CUresult> event_result{CUDA_SUCCESS};
inline std::atomic<int> pinned{0};
inline std::atomic<int> unpinned{0};
inline std::atomic<int> opened{0};
inline std::atomic<uint64_t> copied_bytes{0};

class Rig {
 public:
  using DmaBufBytes = std::function<Result<uint64_t>(int fd)>;

  explicit Rig(Gpu::Options gpu = {}, DmaBufBytes dmabuf_bytes = os::DmaBufBytes,
               NvlinkCounters nvlink = {}, Allocation allocation = Allocation::kVmm)
      : real_(**shim::LoadCuda(FakeCudaPath())),
        options_{"test", WithKernel(gpu), std::move(dmabuf_bytes), std::move(nvlink), allocation},
        api(std::make_shared<shim::CudaApi>(real_)) {
    fake = &real_;
    event_result = CUDA_SUCCESS;
    pinned = unpinned = opened = 0;
    copied_bytes = 0;
  }
  ~Rig() {
    memory_.reset();
    CHECK(FakeCudaFunction<FakeCudaLeaks>("fakeCudaLeaks")() == 0);
  }

  // From before memory() is made: how often host memory was pinned, and unpinned.
  void CountPins() const {
    api->MemHostRegister = [](void* address, size_t bytes, unsigned flags) {
      ++pinned;
      return fake->MemHostRegister(address, bytes, flags);
    };
    api->MemHostUnregister = [](void* address) {
      ++unpinned;
      return fake->MemHostUnregister(address);
    };
  }

  // Made on first use, after the test has put its wrappers into `api`.
  CudaMemory& memory() {
    if (memory_ == nullptr) {
      memory_ = std::make_unique<CudaMemory>(options_, std::shared_ptr<const shim::CudaApi>(api));
    }
    return *memory_;
  }
  std::string device(size_t index) { return memory().Describe().at(index).device; }
  Viability viability(size_t index) { return memory().Describe().at(index).viability; }
  RegionRef Allocate(size_t index, uint64_t bytes) {
    auto region = memory().Allocate(device(index), bytes);
    REQUIRE_OK(region);
    return RegionRef(std::move(*region));
  }
  // In nvidia-smi's order, which is not the fake driver's.
  bool ContextIsOpen(size_t index) {
    unsigned flags = 0;
    int active = 0;
    const auto gpus = ListGpus(real_);
    REQUIRE_OK(gpus);
    real_.DevicePrimaryCtxGetState(gpus->at(index).device, &flags, &active);
    return active != 0;
  }

 private:
  static Gpu::Options WithKernel(Gpu::Options options) {
    options.scatter_image = testing::FakeScatterImage();
    options.leaf_sum_image = testing::FakeScatterImage();
    return options;
  }

  const shim::CudaApi real_;
  const CudaMemory::Options options_;

 public:
  const std::shared_ptr<shim::CudaApi> api;

 private:
  std::unique_ptr<CudaMemory> memory_;
};

// What a transfer does before it moves anything; between GPUs, copies the regions' bytes.
inline void Prove(CudaMemory& memory, const RegionRef& from, const RegionRef& to) {
  auto route = memory.Prepare(from, to);
  REQUIRE_OK(route);
  REQUIRE_OK((*route)->Prove(0, 0, std::min(from->bytes(), to->bytes())));
}

}  // namespace onecopy::cuda
