// One GPU while this process uses it: its thread, its context, and whether it has been lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/memory/cuda/copier.h"
#include "transport/memory/cuda/gpu_info.h"
#include "transport/os/threads/event_loop.h"
#include "transport/shim/cuda.h"

namespace onecopy::cuda {

class Gpu;

// Keeps a GPU's context open. Move-only; let it go on any thread (on one that may block, the
// context has been closed on return when this was its last use and Options::keep_open is 0).
class GpuUse {
 public:
  GpuUse() = default;
  explicit GpuUse(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  ~GpuUse() { Reset(); }
  GpuUse(GpuUse&& other) noexcept = default;
  GpuUse& operator=(GpuUse&& other) noexcept {
    if (this != &other) {
      Reset();
      gpu_ = std::move(other.gpu_);
    }
    return *this;
  }

  void Reset();
  Gpu* operator->() const { return gpu_.get(); }
  Gpu& operator*() const { return *gpu_; }

 private:
  std::shared_ptr<Gpu> gpu_;
};

// The context is opened (the GPU's primary one is retained) with the first use, and closed when
// there has been none for Options::keep_open. Streams and events are touched by the GPU's thread
// only. Slow calls of the driver that need no stream are made by the thread that asks, in a
// ScopedCudaContext, so that they hold no copy up.
//
// Threads: any, unless a method says otherwise. The object must not die on its own thread: its
// creator keeps it until its uses are gone.
class Gpu : public std::enable_shared_from_this<Gpu> {
 public:
  struct Options {
    std::chrono::microseconds spin{200};  // how long to poll before napping between polls
    uint64_t peer_chunk_bytes = uint64_t{256} << 20;
    uint64_t host_chunk_bytes = uint64_t{8} << 20;
    Scattering scatter = Scattering::kAuto;
    const unsigned char* scatter_image = ScatterImage();  // null: copy engines do the kernel's work
    const unsigned char* leaf_sum_image = LeafSumImage();  // null: the processor sums GPU memory
    // So long what a kernel has waited for other processes' counts as what the next one would; then
    // one is tried again.
    std::chrono::milliseconds kernel_wait_lasts{250};
    // How long a context without a use stays open, with what is pinned in it: closing it and
    // opening it again takes a tenth of a second or two.
    std::chrono::milliseconds keep_open{0};
  };

  // Runs on the GPU's thread before its context closes.
  using BeforeClose = std::function<void(Gpu&)>;

  Gpu(std::shared_ptr<const shim::CudaApi> api, GpuInfo info, Options options,
      BeforeClose before_close);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const shim::CudaApi& api() const { return *api_; }
  const GpuInfo& info() const { return info_; }
  const Options& options() const { return options_; }
  os::EventLoop& loop() { return thread_.loop(); }

  // Opens the context if it is not open. Blocks; not on the GPU's own thread. GPU_LOST, NO_MEMORY,
  // or DRIVER_FAILED with the driver's own error.
  Result<GpuUse> Use();
  // One more use of a context that is open now; nothing where it is not, or about to close.
  std::optional<GpuUse> UseIfOpen();
  // The same if it is in use, and not merely kept open.
  std::optional<GpuUse> UseIfUsed();
  unsigned uses() const;
  // Does not wait for keep_open. The uses that it has; 0: it is closed. Blocks; not on the GPU's
  // own thread.
  unsigned CloseIfUnused();

  // Success, or GPU_LOST once an error has been seen after which this process cannot use the GPU.
  Status lost() const;

  // What `error`, returned by the driver for `what`, means: GPU_LOST (from then on for everything)
  // for an error that breaks the context; NO_MEMORY; else `code` and `reason` with the driver's own
  // text.
  Status Failure(CUresult error, const std::string& what, Code code, std::string_view reason,
                 const std::string& remedy = {});
  // The same for an error of work that was under way, where an unknown error breaks the context
  // too.
  Status WorkFailure(CUresult error, const std::string& what);

  // While a use lives.
  CUcontext context() const { return context_; }
  // The GPU's thread, while a use lives.
  Copier& copier() { return *copier_; }
  // As Copier::Cancel, if the context is open. Its thread.
  void CancelCopies(Direction direction, uint64_t channel) {
    if (copier_ != nullptr) copier_->Cancel(direction, channel);
  }
  // The GPU's thread; null where the context is closed.
  Copier* copier_if_open() { return copier_.get(); }

  // Writes zeroes; blocks until they are there. While a use lives; not on the GPU's own thread.
  Status Zero(CUdeviceptr address, uint64_t bytes);

  // Computes the checksums of consecutive leaves; see LeafSums. Blocks. NOT_APPLICABLE if this GPU
  // cannot run the kernel. While a use lives; not on the GPU's own thread.
  Status SumLeaves(CUdeviceptr first, std::span<SumDigest> sums);

  // Waits for the copies that are under way; not on the GPU's own thread.
  void Settle();

  // "cuda:0 (GPU-5f…)", for messages.
  std::string ToString() const;

 private:
  friend class GpuUse;

  void Release();
  Status Open();               // GPU's thread
  void CloseLater();           // GPU's thread
  unsigned CloseUnlessUsed();  // GPU's thread; the uses
  void Close();                // GPU's thread
  Status MarkLost(const std::string& why);

  const std::shared_ptr<const shim::CudaApi> api_;
  const GpuInfo info_;
  const Options options_;
  const BeforeClose before_close_;

  mutable Mutex mutex_;
  unsigned uses_ ONECOPY_GUARDED_BY(mutex_) = 0;
  bool open_ ONECOPY_GUARDED_BY(mutex_) = false;  // false from before it closes
  Status lost_ ONECOPY_GUARDED_BY(mutex_);

  CUcontext context_ = nullptr;        // written on the GPU's thread while no use lives
  std::unique_ptr<Copier> copier_;     // GPU's thread
  os::EventLoop::TimerId closes_ = 0;  // GPU's thread
  os::LoopThread thread_;              // last: its tasks use everything above
};

}  // namespace onecopy::cuda
