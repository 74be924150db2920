#include "transport/memory/cuda/cuda_memory.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/memory/cuda/copy_route.h"
#include "transport/memory/cuda/legacy_allocation.h"
#include "transport/memory/cuda/region_access.h"
#include "transport/memory/cuda/small_copy_route.h"
#include "transport/memory/cuda/tiling.h"

namespace onecopy::cuda {
namespace {

Viability ViabilityOf(const Status& status) {
  if (status.ok()) return {};
  return Viability::No(status.reason(), status.message(), status.remedy());
}

std::byte* Pointer(CUdeviceptr address) { return reinterpret_cast<std::byte*>(address); }

Status BadSize() {
  return {Code::kInvalidArgument, reasons::kBadSize, "GPU memory needs at least 1 byte",
          "ask for at least 1 byte"};
}

// For the plan: what Copier does.
void DescribeScattering(const Gpu::Options& options, MemoryCapability* gpu) {
  if (options.scatter_image == nullptr) gpu->attributes["kernels"] = "none (built without nvcc)";
  if (options.scatter_image == nullptr || options.scatter == Scattering::kCopyEngine) return;
  const bool always = options.scatter == Scattering::kKernel;
  gpu->kernel_below_bytes_host = always ? UINT64_MAX : kPieceOverPcie;
  gpu->kernel_below_bytes_gpu = always ? UINT64_MAX : kPieceBetweenGpus;
}

// On the GPU's thread, beside whatever else has to be prepared.
void WakeDriver(const CudaCopyRoute::Parts& parts) {
  CUdeviceptr scratch = 0;
  std::optional<GpuUse> peer;
  // The region on the peer keeps its context open for now, and this for as long as it takes.
  if (parts.direction == Direction::kToPeer) peer = parts.way.to->UseIfOpen();
  if (peer) scratch = (*peer)->copier().scratch();
  auto warm = [peer = std::move(peer)]() mutable {
    if (!peer) return;
    // Closing a context takes its own GPU's thread.
    os::EventLoop& loop = (*peer)->loop();
    loop.Post([peer = std::move(peer)] {});
  };
  parts.gpu->loop().Post(
      [gpu = &*parts.gpu, direction = parts.direction, scratch, warm = std::move(warm)]() mutable {
        // The route's owner may be done with it, and the context be closed.
        Copier* const copier = gpu->copier_if_open();
        if (copier != nullptr) return copier->WarmUp(direction, scratch, std::move(warm));
        warm();
      });
}

// Of "cuda-vmm": that each has a descriptor, and the piece lies in all of them together.
Status CheckAllocations(const ImportRequest& request,
                        const std::vector<ImportRequest::Allocation>& allocations) {
  if (allocations.size() > kMaxAllocations) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            std::to_string(allocations.size()) + " allocations; a buffer lies in up to " +
                std::to_string(kMaxAllocations),
            "register it in pieces"};
  }
  uint64_t all = 0;
  for (const ImportRequest::Allocation& one : allocations) {
    if (one.fd < 0) {
      return {Code::kInvalidArgument, reasons::kBadHandle, "no descriptor was passed",
              "pass the descriptor of cuMemExportToShareableHandle"};
    }
    if (one.bytes > std::numeric_limits<uint64_t>::max() - all) {
      return {Code::kInvalidArgument, reasons::kBadSize,
              "the allocations are longer than 64 bits can count"};
    }
    all += one.bytes;
  }
  return CheckWithin({request.offset, request.bytes}, all,
                     allocations.size() == 1 ? "an allocation" : "the allocations");
}

}  // namespace

CudaMemory::CudaMemory(Options options, Result<std::shared_ptr<const shim::CudaApi>> api)
    : options_(std::move(options)),
      unusable_(api.status()),
      one_pass_(std::make_shared<OnePass>(options_.nvlink)) {
  if (!api.ok()) return;
  api_ = *api;
  Result<std::vector<GpuInfo>> infos = ListGpus(*api_);
  if (!infos.ok()) {
    unusable_ = infos.status();
    return;
  }
  infos_ = std::move(*infos);
  for (const GpuInfo& info : infos_) {
    auto before_close = [pins = pins_, aliases = aliases_](Gpu& gpu) {
      pins->DropAllOf(gpu);
      aliases->DropAllOf(gpu);
    };
    devices_.push_back({std::make_shared<Gpu>(api_, info, options_.gpu, std::move(before_close)),
                        std::make_shared<IpcCache>()});
  }
}

CudaMemory::~CudaMemory() {
  // What wakes one GPU's driver may still be using another GPU. Twice: the first time ends the
  // copies, whose uses then end on the other's thread.
  for (int round = 0; round < 2; ++round) {
    for (const Device& device : devices_) device.gpu->Settle();
  }
  for ([[maybe_unused]] const Device& device : devices_) assert(device.gpu->uses() == 0);
}

std::vector<MemoryCapability> CudaMemory::Describe() const {
  if (!unusable_.ok()) {
    MemoryCapability none;
    none.kind = kind_;
    none.name = "NVIDIA GPU";
    none.viability = ViabilityOf(unusable_);
    return {none};
  }
  std::vector<MemoryCapability> capabilities;
  for (size_t i = 0; i < infos_.size(); ++i) {
    capabilities.push_back(cuda::Describe(infos_[i], ViabilityOf(devices_[i].gpu->lost())));
    DescribeScattering(options_.gpu, &capabilities.back());
  }
  return capabilities;
}

Result<std::string> CudaMemory::FindDevice(const std::string& typed) const {
  if (!LooksLikeGpu(typed)) {
    return Status(Code::kNotFound, reasons::kDeviceNotFound, "\"" + typed + "\" is not a GPU",
                  "name a GPU by cuda:N, its UUID or its PCI address");
  }
  ONECOPY_RETURN_IF_ERROR(unusable_);
  ONECOPY_ASSIGN_OR_RETURN(const size_t index, FindGpu(infos_, typed));
  return infos_[index].uuid;
}

Result<const CudaMemory::Device*> CudaMemory::FindByUuid(const std::string& uuid) const {
  ONECOPY_RETURN_IF_ERROR(unusable_);
  for (size_t i = 0; i < infos_.size(); ++i) {
    if (infos_[i].uuid == uuid) return &devices_[i];
  }
  return Status(Code::kNotFound, reasons::kDeviceNotFound,
                "there is no GPU with the UUID \"" + uuid + "\" here");
}

Result<std::unique_ptr<Region>> CudaMemory::Allocate(const std::string& device, uint64_t bytes) {
  ONECOPY_ASSIGN_OR_RETURN(const Device* const found, FindByUuid(device));
  if (bytes == 0) return BadSize();
  if (options_.allocation == Allocation::kLegacy) return AllocateLegacy(*found, device, bytes);
  ONECOPY_ASSIGN_OR_RETURN(GpuUse use, found->gpu->Use());
  ONECOPY_ASSIGN_OR_RETURN(VmmMapping mapping, VmmMapping::Create(found->gpu, vmm_, bytes));
  // The whole mapping, which is rounded up: no owner sees what another one has left there.
  ONECOPY_RETURN_IF_ERROR(use->Zero(mapping.address(), mapping.bytes()));
  std::byte* const data = Pointer(mapping.address());
  auto release = [use = std::move(use), mapping = std::move(mapping)]() mutable {
    mapping = VmmMapping();
    use.Reset();
  };
  auto region =
      std::make_unique<Region>(Place{kind_, device}, data, bytes, false, std::move(release));
  ExportDmaBufOf(*region, found->gpu);
  ShareOwn(*region, found->gpu);
  FlushIfNeeded(*region, found->gpu);
  return region;
}

Result<std::unique_ptr<Region>> CudaMemory::AllocateLegacy(const Device& device,
                                                           const std::string& uuid,
                                                           uint64_t bytes) {
  ONECOPY_ASSIGN_OR_RETURN(GpuUse use, device.gpu->Use());
  ONECOPY_ASSIGN_OR_RETURN(LegacyAllocation memory, LegacyAllocation::Make(device.gpu, bytes));
  ONECOPY_RETURN_IF_ERROR(use->Zero(memory.address(), memory.bytes()));
  std::byte* const data = Pointer(memory.address());
  auto release = [use = std::move(use), memory = std::move(memory)]() mutable {
    memory = LegacyAllocation();
    use.Reset();
  };
  auto region =
      std::make_unique<Region>(Place{kind_, uuid}, data, bytes, false, std::move(release));
  ExportDmaBufOf(*region, device.gpu);
  ShareOwnHandle(*region, device.gpu);
  FlushIfNeeded(*region, device.gpu);
  return region;
}

Result<std::unique_ptr<Region>> CudaMemory::Restore(const ImportRequest& kept) {
  if (kept.form != "cuda-vmm") {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  "memory of cudaMalloc ends with the process that allocated it",
                  "let the daemon allocate by cuMemCreate");
  }
  ONECOPY_ASSIGN_OR_RETURN(const Device* const device, FindByUuid(kept.device));
  return ImportVmm(*device, kept);
}

Result<std::unique_ptr<Region>> CudaMemory::Import(const ImportRequest& request) {
  const bool ipc = request.form == "cuda-ipc";
  if (!ipc && request.form != "cuda-vmm") {
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  "GPU memory cannot be shared as \"" + request.form + "\"",
                  "pass a legacy IPC handle (cuda-ipc) or an exported allocation (cuda-vmm)");
  }
  ONECOPY_ASSIGN_OR_RETURN(const Device* const device, FindByUuid(request.device));
  if (request.bytes == 0) return BadSize();
  return ipc ? ImportIpc(*device, request) : ImportVmm(*device, request);
}

Result<std::unique_ptr<Region>> CudaMemory::ImportIpc(const Device& device,
                                                      const ImportRequest& request) {
  if (device.gpu->info().mig) {
    return Status(Code::kFailedPrecondition, reasons::kNotShareable,
                  device.gpu->ToString() + " is a MIG instance, and MIG does not support CUDA IPC",
                  "use a GPU that is not in MIG mode, or memory that the daemon allocates");
  }
  if (!request.same_pid_namespace) {
    return Status(
        Code::kFailedPrecondition, reasons::kPidNamespace,
        "memory of cudaMalloc cannot be shared across PID namespaces, and the client (process " +
            std::to_string(request.owner_pid) + ") runs in another one",
        "run the container in the host's PID namespace, or use memory of cuMemCreate or "
        "of the daemon");
  }
  ONECOPY_ASSIGN_OR_RETURN(KeptDmaBuf dmabuf, KeepDmaBuf(request, options_.dmabuf_bytes));
  ONECOPY_ASSIGN_OR_RETURN(GpuUse use, device.gpu->Use());
  ONECOPY_ASSIGN_OR_RETURN(const IpcCache::Opened opened, device.ipc->Open(*use, request.handle));
  const Status inside =
      CheckWithin({request.offset, request.bytes}, opened.bytes, "the memory behind the handle");
  if (!inside.ok()) {
    device.ipc->Close(*use, request.handle);
    return inside;
  }
  std::byte* const data = Pointer(opened.address) + request.offset;
  auto release = [use = std::move(use), ipc = device.ipc, handle = request.handle]() mutable {
    ipc->Close(*use, handle);
    use.Reset();
  };
  auto region = std::make_unique<Region>(Place{kind_, request.device}, data, request.bytes, false,
                                         std::move(release));
  aliases_->Remember(*region, request.handle, request.offset);
  LendDmaBufOf(*region, std::move(dmabuf));
  ShareHandle(*region, request);
  FlushIfNeeded(*region, device.gpu);
  return region;
}

Result<std::unique_ptr<Region>> CudaMemory::ImportVmm(const Device& device,
                                                      const ImportRequest& request) {
  std::vector<ImportRequest::Allocation> allocations = request.more;
  allocations.insert(allocations.begin(), {request.fd, request.allocation_bytes});
  ONECOPY_RETURN_IF_ERROR(CheckAllocations(request, allocations));
  ONECOPY_ASSIGN_OR_RETURN(Descriptors originals, KeepDescriptors(allocations));
  ONECOPY_ASSIGN_OR_RETURN(GpuUse use, device.gpu->Use());
  ONECOPY_ASSIGN_OR_RETURN(VmmMapping mapping, VmmMapping::Import(device.gpu, vmm_, allocations));
  std::byte* const data = Pointer(mapping.address()) + request.offset;
  auto release = [use = std::move(use), mapping = std::move(mapping)]() mutable {
    mapping = VmmMapping();
    use.Reset();
  };
  auto region = std::make_unique<Region>(Place{kind_, request.device}, data, request.bytes, false,
                                         std::move(release));
  ExportDmaBufOf(*region, device.gpu);
  ShareDescriptors(*region, request, std::move(originals));
  FlushIfNeeded(*region, device.gpu);
  return region;
}

bool CudaMemory::Copies(const Place& from, const Place& to) const {
  const auto fits = [this](const Place& place) {
    return place.kind == "host" || (place.kind == kind_ && FindByUuid(place.device).ok());
  };
  return (from.kind == kind_ || to.kind == kind_) && fits(from) && fits(to);
}

Result<CudaCopyRoute::Parts> CudaMemory::PrepareParts(const RegionRef& from, const RegionRef& to) {
  if (!Copies(from->place(), to->place())) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "GPUs cannot copy from " + from->step_name() + " to " + to->step_name());
  }
  const bool from_gpu = from->place().kind == kind_;
  const bool to_gpu = to->place().kind == kind_;
  const Region& on_gpu = from_gpu ? *from : *to;
  ONECOPY_ASSIGN_OR_RETURN(const Device* const device, FindByUuid(on_gpu.place().device));
  CudaCopyRoute::Parts parts;
  ONECOPY_ASSIGN_OR_RETURN(parts.gpu, device->gpu->Use());
  parts.from = from;
  parts.to = to;
  parts.from_address = AddressOf(*from);
  parts.to_address = AddressOf(*to);
  if (from_gpu && to_gpu) {
    const bool inside = from->place() == to->place();
    parts.direction = inside ? Direction::kInside : Direction::kToPeer;
    if (!inside) {
      ONECOPY_ASSIGN_OR_RETURN(const Device* const peer, FindByUuid(to->place().device));
      ONECOPY_RETURN_IF_ERROR(OpenPeer(*device, *peer, &parts));
    }
  } else {
    parts.direction = from_gpu ? Direction::kFromGpu : Direction::kToGpu;
    ONECOPY_ASSIGN_OR_RETURN(parts.pin, pins_->Pin(from_gpu ? to : from, *parts.gpu));
  }
  WakeDriver(parts);
  return parts;
}

Result<std::unique_ptr<CopyRoute>> CudaMemory::Prepare(const RegionRef& from, const RegionRef& to) {
  ONECOPY_ASSIGN_OR_RETURN(CudaCopyRoute::Parts parts, PrepareParts(from, to));
  return std::unique_ptr<CopyRoute>(
      std::make_unique<CudaCopyRoute>(options_.node, std::move(parts)));
}

Result<CudaCopyRoute::Parts> CudaMemory::PreparePolled(const RegionRef& from, const RegionRef& to) {
  ONECOPY_ASSIGN_OR_RETURN(CudaCopyRoute::Parts parts, PrepareParts(from, to));
  if (parts.one_pass != nullptr && !one_pass_->Known(parts.way)) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  "no copy from " + from->step_name() + " to " + to->step_name() +
                      " has been measured as one pass yet");
  }
  return parts;
}

Result<std::unique_ptr<SmallCopyRoute>> CudaMemory::PrepareSmall(const RegionRef& from,
                                                                 const RegionRef& to) {
  ONECOPY_ASSIGN_OR_RETURN(CudaCopyRoute::Parts parts, PreparePolled(from, to));
  const MutexLock lock(mutex_);
  std::weak_ptr<PolledLane>& known = small_lanes_[&*parts.gpu];
  std::shared_ptr<PolledLane> lane = known.lock();
  if (lane == nullptr) {
    ONECOPY_ASSIGN_OR_RETURN(GpuUse use, parts.gpu->Use());
    ONECOPY_ASSIGN_OR_RETURN(lane, PolledLane::Open(std::move(use)));
    known = lane;
  }
  return std::unique_ptr<SmallCopyRoute>(
      std::make_unique<CudaSmallCopyRoute>(options_.node, std::move(parts), std::move(lane)));
}

// Not in the small copies' lane: these would wait behind long ones.
Result<std::unique_ptr<SmallCopyRoute>> CudaMemory::PrepareLong(const RegionRef& from,
                                                                const RegionRef& to) {
  ONECOPY_ASSIGN_OR_RETURN(CudaCopyRoute::Parts parts, PreparePolled(from, to));
  ONECOPY_ASSIGN_OR_RETURN(std::shared_ptr<PolledLane> lane, long_lanes_.Take(*parts.gpu));
  return std::unique_ptr<SmallCopyRoute>(
      std::make_unique<CudaSmallCopyRoute>(options_.node, std::move(parts), std::move(lane)));
}

Mapping CudaMemory::MappingOf(const Region& region) const {
  if (aliases_->Remembers(region)) return Mapping::kLegacy;
  if (!vmm_->Contains(AddressOf(region))) return Mapping::kOwnLegacy;
  return vmm_->IsImported(AddressOf(region)) ? Mapping::kImported : Mapping::kOwn;
}

Status CudaMemory::OpenPeer(const Device& from, const Device& to, CudaCopyRoute::Parts* parts) {
  parts->way = {from.gpu.get(), to.gpu.get(), MappingOf(*parts->from), MappingOf(*parts->to)};
  parts->one_pass = one_pass_;
  if (const auto seen = one_pass_->Known(parts->way)) ONECOPY_RETURN_IF_ERROR(seen->status);
  ONECOPY_RETURN_IF_ERROR(ReachPeer(*from.gpu, *to.gpu, *parts->to));
  ONECOPY_ASSIGN_OR_RETURN(parts->to_address,
                           aliases_->AddressFor(*parts->to, *from.gpu, from.ipc));
  return OkStatus();
}

Status CudaMemory::ReachPeer(Gpu& from, Gpu& peer, const Region& to) const {
  ONECOPY_RETURN_IF_ERROR(peer.lost());
  const std::string what = "letting " + from.ToString() + " write memory of " + peer.ToString();
  const std::string remedy =
      "see nvidia-smi topo -p2p w; go through host memory with --path peer-bounce";
  int can = 0;
  CUresult error = api_->DeviceCanAccessPeer(&can, from.info().device, peer.info().device);
  if (error == CUDA_SUCCESS && can == 0) {
    return {Code::kFailedPrecondition, reasons::kNoPeerAccess,
            what + ": the driver reports no peer access between the two", remedy};
  }
  if (error == CUDA_SUCCESS && vmm_->Contains(AddressOf(to))) {
    error = vmm_->LetReach(from, AddressOf(to));
  }
  // For memory of legacy IPC, and for what this process allocates for itself there.
  if (error == CUDA_SUCCESS) {
    const shim::ScopedCudaContext scope(*api_, from.context());
    error = scope.outcome();
    if (error == CUDA_SUCCESS) error = api_->CtxEnablePeerAccess(peer.context(), 0);
    if (error == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) error = CUDA_SUCCESS;
  }
  if (error == CUDA_SUCCESS) return OkStatus();
  return from.Failure(error, what, Code::kFailedPrecondition, reasons::kNoPeerAccess, remedy);
}

Status CudaMemory::SumLeaves(const Region& region, uint64_t offset, std::span<LeafSum> sums) {
  static_assert(kLeafBytes == kSummedLeafBytes && sizeof(LeafSum) == sizeof(SumDigest));
  ONECOPY_RETURN_IF_ERROR(
      CheckWithin({offset, sums.size() * kLeafBytes}, region.bytes(), "memory"));
  CUdeviceptr next = reinterpret_cast<uintptr_t>(region.address()) + offset;
  if (options_.gpu.scatter == Scattering::kCopyEngine || next % kSummedAlignment != 0) {
    return {Code::kFailedPrecondition, reasons::kNotApplicable,
            "the GPU does not sum bytes that begin there"};
  }
  ONECOPY_ASSIGN_OR_RETURN(const Device* const found, FindByUuid(region.place().device));
  ONECOPY_ASSIGN_OR_RETURN(const GpuUse use, found->gpu->Use());
  std::vector<SumDigest> told(std::min<size_t>(sums.size(), LeafSums::kMostLeaves));
  for (std::span<LeafSum> rest = sums; !rest.empty();) {
    const size_t some = std::min(rest.size(), told.size());
    ONECOPY_RETURN_IF_ERROR(use->SumLeaves(next, std::span(told).first(some)));
    std::memcpy(rest.data(), told.data(), some * sizeof(LeafSum));
    rest = rest.subspan(some);
    next += some * kLeafBytes;
  }
  return OkStatus();
}

Status CudaMemory::CloseDevice(const std::string& device) {
  ONECOPY_ASSIGN_OR_RETURN(const Device* const found, FindByUuid(device));
  const unsigned uses = found->gpu->CloseIfUnused();
  if (uses == 0) return OkStatus();
  return {Code::kFailedPrecondition, reasons::kDeviceInUse,
          found->gpu->ToString() + " is in use: " + std::to_string(uses) +
              " buffers, transfers or pins hold its context open",
          "remove its buffers first"};
}

}  // namespace onecopy::cuda
