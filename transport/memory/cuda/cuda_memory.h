// Memory of NVIDIA GPUs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/core/base/mutex.h"
#include "transport/core/contracts/memory.h"
#include "transport/memory/cuda/copy_route.h"
#include "transport/memory/cuda/gpu.h"
#include "transport/memory/cuda/gpu_info.h"
#include "transport/memory/cuda/host_pins.h"
#include "transport/memory/cuda/ipc_cache.h"
#include "transport/memory/cuda/long_lanes.h"
#include "transport/memory/cuda/one_pass.h"
#include "transport/memory/cuda/peer_aliases.h"
#include "transport/memory/cuda/polled_lane.h"
#include "transport/memory/cuda/vmm.h"
#include "transport/os/memory/dma_buf.h"

namespace onecopy::cuda {

// How the daemon's own buffers are made. Both can be shared with other daemons and read by network
// devices. Libraries that know handles of legacy IPC alone, as UCX up to 1.22 does within a node,
// can lend the second only.
enum class Allocation { kVmm, kLegacy };

// Must outlive its regions and routes: it joins the GPUs' threads.
class CudaMemory final : public Memory {
 public:
  struct Options {
    std::string node;  // names this node in steps
    Gpu::Options gpu;
    // The size of a client's dma-buf; BAD_HANDLE for what is none.
    std::function<Result<uint64_t>(int fd)> dmabuf_bytes = os::DmaBufBytes;
    NvlinkCounters nvlink = {};
    Allocation allocation = Allocation::kVmm;
  };

  // Lists the GPUs, and opens none. `api` is what LoadCuda gave: without a driver or a GPU this
  // memory is there anyway, and says why nothing can be done with it.
  CudaMemory(Options options, Result<std::shared_ptr<const shim::CudaApi>> api);
  ~CudaMemory() override;

  const std::string& kind() const override { return kind_; }
  std::vector<MemoryCapability> Describe() const override;
  Result<std::string> FindDevice(const std::string& typed) const override;

  // Memory of cuMemCreate, exportable, and readable by NICs where the GPU allows that; or of
  // cuMemAlloc, as the options say.
  Result<std::unique_ptr<Region>> Allocate(const std::string& device, uint64_t bytes) override;

  // Of cuMemCreate alone. A descriptor keeps that memory without any process that maps it.
  Result<std::unique_ptr<Region>> Restore(const ImportRequest& kept) override;

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
  // HOST_NOT_PINNABLE or NO_PEER_ACCESS; what has been seen to be none, with NOT_ONE_PASS.
  Result<std::unique_ptr<CopyRoute>> Prepare(const RegionRef& from, const RegionRef& to) override;

  // The same, on a stream that all such routes of the copying GPU share; between GPUs only where
  // another route has proven such a way (NOT_APPLICABLE before).
  Result<std::unique_ptr<SmallCopyRoute>> PrepareSmall(const RegionRef& from,
                                                       const RegionRef& to) override;
  Result<std::unique_ptr<SmallCopyRoute>> PrepareLong(const RegionRef& from,
                                                      const RegionRef& to) override;

  Status SumLeaves(const Region& region, uint64_t offset, std::span<LeafSum> sums) override;

  // Closes a context that is kept open without a use; DEVICE_IN_USE if it is in use.
  Status CloseDevice(const std::string& device) override;

 private:
  struct Device {
    std::shared_ptr<Gpu> gpu;
    std::shared_ptr<IpcCache> ipc;
  };

  // By UUID. The reason why there is no GPU at all, or DEVICE_NOT_FOUND.
  Result<const Device*> FindByUuid(const std::string& uuid) const;
  Result<std::unique_ptr<Region>> AllocateLegacy(const Device& device, const std::string& uuid,
                                                 uint64_t bytes);
  Result<std::unique_ptr<Region>> ImportIpc(const Device& device, const ImportRequest& request);
  Result<std::unique_ptr<Region>> ImportVmm(const Device& device, const ImportRequest& request);
  // What a route between the two holds; see Prepare.
  Result<CudaCopyRoute::Parts> PrepareParts(const RegionRef& from, const RegionRef& to);
  // Likewise, for copies that nothing is proved of one by one.
  Result<CudaCopyRoute::Parts> PreparePolled(const RegionRef& from, const RegionRef& to);
  // Lets the route's GPU reach a destination on another one; NOT_ONE_PASS where it is known not to
  // be copied to in one pass.
  Status OpenPeer(const Device& from, const Device& to, CudaCopyRoute::Parts* parts);
  Status ReachPeer(Gpu& from, Gpu& peer, const Region& to) const;
  Mapping MappingOf(const Region& region) const;

  const std::string kind_ = "cuda";
  const Options options_;
  Status unusable_;  // why there is no GPU at all
  std::shared_ptr<const shim::CudaApi> api_;
  const std::shared_ptr<HostPins> pins_ = std::make_shared<HostPins>();
  const std::shared_ptr<VmmMappings> vmm_ = std::make_shared<VmmMappings>();
  const std::shared_ptr<PeerAliases> aliases_ = std::make_shared<PeerAliases>();
  const std::shared_ptr<OnePass> one_pass_;
  std::vector<GpuInfo> infos_;
  std::vector<Device> devices_;  // as infos_
  Mutex mutex_;
  std::map<const Gpu*, std::weak_ptr<PolledLane>> small_lanes_ ONECOPY_GUARDED_BY(mutex_);
  LongLanes long_lanes_;
};

}  // namespace onecopy::cuda
