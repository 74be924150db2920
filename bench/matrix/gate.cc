#include "bench/matrix/gate.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

namespace onecopy::bench {
namespace {

constexpr std::chrono::milliseconds kMostClosed{20};

}  // namespace

Result<std::unique_ptr<Gate>> Gate::Create(std::shared_ptr<Gpu> gpu) {
  const shim::CudaApi& api = gpu->api();
  const shim::ScopedCudaContext scope(api, gpu->context());
  void* word = nullptr;
  ONECOPY_RETURN_IF_ERROR(
      CudaStatus(api,
                 api.MemHostAlloc(&word, sizeof(uint32_t),
                                  CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                 "allocating pinned host memory"));
  return std::unique_ptr<Gate>(new Gate(std::move(gpu), static_cast<uint32_t*>(word)));
}

Gate::~Gate() {
  Open();
  const shim::ScopedCudaContext scope(gpu_->api(), gpu_->context());
  gpu_->api().MemFreeHost(word_);
}

bool Gate::Close(CUstream stream) {
  const shim::CudaApi& api = gpu_->api();
  if (api.StreamWaitValue32 == nullptr) return false;
  std::atomic_ref(*word_).store(0);
  if (api.StreamWaitValue32(stream, reinterpret_cast<CUdeviceptr>(word_), 1,
                            CU_STREAM_WAIT_VALUE_EQ) != CUDA_SUCCESS) {
    return false;
  }
  opener_ = std::jthread([word = word_](const std::stop_token& opened) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, opened, kMostClosed, [] { return false; });
    std::atomic_ref(*word).store(1);
  });
  return true;
}

void Gate::Open() {
  if (!opener_.joinable()) return;
  std::atomic_ref(*word_).store(1);
  opener_.request_stop();
  opener_.join();
}

}  // namespace onecopy::bench
