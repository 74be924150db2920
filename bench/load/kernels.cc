#include "bench/load/kernels.h"

#include <algorithm>
#include <array>
#include <latch>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "transport/shim/cuda.h"

// Made from kernels.cu by nvcc, for every architecture; null where this was built without nvcc.
extern "C" const unsigned char* const onecopy_bench_load_image;

namespace onecopy::bench {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kBlocksPerProcessor = 8;  // 2,048 threads, which is all that one holds
constexpr unsigned kRounds = 100'000;        // some 2 ms
constexpr size_t kAhead = 4;                 // kernels that wait for their turn

// One GPU's kernels, on one thread.
class Neighbour {
 public:
  Neighbour(const shim::CudaApi& api, int ordinal) : api_(api), ordinal_(ordinal) {}
  ~Neighbour() {
    if (context_ == nullptr) return;
    if (stream_ != nullptr) api_.StreamSynchronize(stream_);
    for (CUevent event : events_) {
      if (event != nullptr) api_.EventDestroy(event);
    }
    if (stream_ != nullptr) api_.StreamDestroy(stream_);
    if (module_ != nullptr) api_.ModuleUnload(module_);
    api_.CtxSetCurrent(nullptr);
    api_.DevicePrimaryCtxRelease(device_);
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  CUresult Open() {
    CUresult error = api_.DeviceGet(&device_, ordinal_);
    if (error == CUDA_SUCCESS) error = api_.DevicePrimaryCtxRetain(&context_, device_);
    if (error != CUDA_SUCCESS) return error;
    error = api_.CtxSetCurrent(context_);
    int processors = 0;
    if (error == CUDA_SUCCESS) {
      error =
          api_.DeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_);
    }
    blocks_ = static_cast<unsigned>(std::max(processors, 1)) * kBlocksPerProcessor;
    if (error == CUDA_SUCCESS) error = api_.ModuleLoadData(&module_, onecopy_bench_load_image);
    if (error == CUDA_SUCCESS) {
      error = api_.ModuleGetFunction(&function_, module_, "onecopy_bench_load");
    }
    if (error == CUDA_SUCCESS) error = api_.StreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
    for (CUevent& event : events_) {
      if (error == CUDA_SUCCESS) error = api_.EventCreate(&event, CU_EVENT_DISABLE_TIMING);
    }
    return error;
  }

  // Returns when the kernel before the last kAhead ones has ended.
  CUresult Launch() {
    CUevent event = events_[next_++ % kAhead];
    CUresult error = CUDA_SUCCESS;
    if (next_ > kAhead) {
      while ((error = api_.EventQuery(event)) == CUDA_ERROR_NOT_READY) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
    CUdeviceptr out = 0;
    unsigned rounds = kRounds;
    std::array<void*, 2> parameters = {&out, &rounds};
    if (error == CUDA_SUCCESS) {
      error = api_.LaunchKernel(function_, blocks_, 1, 1, kThreads, 1, 1, 0, stream_,
                                parameters.data(), nullptr);
    }
    return error == CUDA_SUCCESS ? api_.EventRecord(event, stream_) : error;
  }

 private:
  const shim::CudaApi& api_;
  const int ordinal_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  CUstream stream_ = nullptr;
  std::array<CUevent, kAhead> events_{};
  unsigned blocks_ = 0;
  size_t next_ = 0;
};

}  // namespace

Status KeepGpusBusy(const LoadOptions& options) {
  if (onecopy_bench_load_image == nullptr) {
    return {Code::kUnimplemented, reasons::kNotApplicable,
            "this onecopy-bench has no kernels: it was built without nvcc",
            "build it with -DONECOPY_KERNELS=ON"};
  }
  ONECOPY_ASSIGN_OR_RETURN(const auto api, shim::LoadCuda(options.cuda_library));
  int count = 0;
  CUresult counted = api->DeviceGetCount(&count);
  std::vector<CUresult> errors(static_cast<size_t>(std::max(count, 0)), counted);
  std::latch busy(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      Neighbour neighbour(*api, i);
      CUresult& error = errors[static_cast<size_t>(i)];
      error = neighbour.Open();
      for (size_t k = 0; k <= kAhead && error == CUDA_SUCCESS; ++k) error = neighbour.Launch();
      busy.count_down();
      while (error == CUDA_SUCCESS && !options.stopped()) error = neighbour.Launch();
    });
  }
  busy.wait();
  const bool well = std::all_of(errors.begin(), errors.end(),
                                [](CUresult error) { return error == CUDA_SUCCESS; });
  if (well) options.started();
  for (std::thread& thread : threads) thread.join();
  for (const CUresult error : errors) {
    if (error == CUDA_SUCCESS) continue;
    return {Code::kFailedPrecondition, reasons::kDriverFailed,
            "keeping GPUs busy: " + shim::CudaErrorText(*api, error)};
  }
  return OkStatus();
}

}  // namespace onecopy::bench
