// Memory of NVIDIA GPUs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/core/memory.h"
#include "transport/memory/cuda/copy_route.h"
#include "transport/memory/cuda/gpu.h"
#include "transport/memory/cuda/gpu_info.h"
#include "transport/memory/cuda/host_pins.h"
#include "transport/memory/cuda/ipc_cache.h"
#include "transport/memory/cuda/short_lane.h"
#include "transport/memory/cuda/vmm.h"
#include "transport/os/dma_buf.h"

namespace onecopy::cuda {

// Must outlive its regions and routes: it joins the GPUs' threads.
class CudaMemory final : public Memory {
 public:
  struct Options {
    std::string node;  // names this node in steps
    Gpu::Options gpu;
    // The size of a client's dma-buf; BAD_HANDLE for what is none.
    std::function<Result<uint64_t>(int fd)> dmabuf_bytes = os::DmaBufBytes;
  };

  // Lists the GPUs, and opens none. `api` is what LoadCuda gave: without a driver or a GPU this
  // memory is there all the same, and says why nothing can be done with it.
  CudaMemory(Options options, Result<std::shared_ptr<const shim::CudaApi>> api);
  ~CudaMemory() override;

  const std::string& kind() const override { return kind_; }
  std::vector<MemoryCapability> Describe() const override;
  Result<std::string> FindDevice(const std::string& typed) const override;

  // Always memory of cuMemCreate, exportable, and readable by NICs where the GPU allows that.
  Result<std::unique_ptr<Region>> Allocate(const std::string& device, uint64_t bytes) override;

  // Form "cuda-ipc": a legacy IPC handle; PID_NAMESPACE for one from another PID namespace,
  // NOT_SHAREABLE on a MIG instance. Form "cuda-vmm": the descriptor of an allocation of
  // cuMemCreate. BAD_HANDLE for what is neither, or lies on another GPU than it is said to;
  // RANGE_OUT_OF_BUFFER for a piece that is not inside it. A dma-buf beside the handle must have
  // room for the piece (BAD_HANDLE); whether it names the same memory, only reading through a
  // network device can tell.
  Result<std::unique_ptr<Region>> Import(const ImportRequest& request) override;

  // One end on a GPU, the other on a GPU or in host memory.
  bool Copies(const Place& from, const Place& to) const override;
  // The copying GPU is the source's, and the destination's for a copy from host memory. Pins host
  // memory, and opens the way to another GPU's: what cannot be one pass fails with
  // HOST_NOT_PINNABLE or NO_PEER_ACCESS.
  Result<std::unique_ptr<CopyRoute>> Prepare(const RegionRef& from, const RegionRef& to) override;

  // The same, on a stream that all such routes of the copying GPU share.
  Result<std::unique_ptr<ShortRoute>> PrepareShort(const RegionRef& from,
                                                   const RegionRef& to) override;

  // The context closes by itself with the last use, so that nothing is left to do here but to say
  // that it is in use (DEVICE_IN_USE).
  Status CloseDevice(const std::string& device) override;

 private:
  struct Device {
    std::shared_ptr<Gpu> gpu;
    std::shared_ptr<IpcCache> ipc;
  };

  // By UUID. The reason why there is no GPU at all, or DEVICE_NOT_FOUND.
  Result<const Device*> FindByUuid(const std::string& uuid) const;
  Result<std::unique_ptr<Region>> ImportIpc(const Device& device, const ImportRequest& request);
  Result<std::unique_ptr<Region>> ImportVmm(const Device& device, const ImportRequest& request);
  // What a route between the two holds; see Prepare.
  Result<CudaCopyRoute::Parts> PrepareParts(const RegionRef& from, const RegionRef& to);
  // Whether `from` can write the memory of another GPU in one pass.
  Status OpenPeer(Gpu& from, const Region& to) const;

  const std::string kind_ = "cuda";
  const Options options_;
  Status unusable_;  // why there is no GPU at all
  std::shared_ptr<const shim::CudaApi> api_;
  const std::shared_ptr<HostPins> pins_ = std::make_shared<HostPins>();
  const std::shared_ptr<VmmMappings> vmm_ = std::make_shared<VmmMappings>();
  std::vector<GpuInfo> infos_;
  std::vector<Device> devices_;  // as infos_
  std::mutex mutex_;
  std::map<const Gpu*, std::weak_ptr<ShortLane>> short_lanes_;  // guarded by mutex_
};

}  // namespace onecopy::cuda
