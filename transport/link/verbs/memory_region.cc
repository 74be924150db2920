#include "transport/link/verbs/memory_region.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "transport/core/reasons.h"
#include "transport/core/size.h"
#include "transport/os/error.h"

namespace onecopy::verbs {
namespace {

constexpr uint64_t kPageMask = 4095;

struct Outcome {
  MemoryRegion region;
  int error = 0;
};

Outcome ByAddress(const std::shared_ptr<Device>& device, Region& region, unsigned access) {
  auto* address = region.address();
  const uint64_t base = reinterpret_cast<uintptr_t>(address);
  errno = 0;
  ibv_mr* made = device->api().RegMr(device->protection_domain(), address,
                                     std::max<uint64_t>(region.bytes(), 1), base,
                                     access | IBV_ACCESS_RELAXED_ORDERING);
  if (made == nullptr) return {{}, errno == 0 ? EIO : errno};
  return {MemoryRegion(device, made, base), 0};
}

Outcome ByDmaBuf(const std::shared_ptr<Device>& device, Region& region, unsigned access,
                 const DmaBuf& buffer) {
  if (device->api().RegDmaBufMr == nullptr) return {{}, EOPNOTSUPP};
  // The kernel wants the address that the device will use to lie in its page as the offset does.
  const uint64_t base =
      (reinterpret_cast<uintptr_t>(region.address()) & ~kPageMask) | (buffer.offset & kPageMask);
  errno = 0;
  ibv_mr* made =
      device->api().RegDmaBufMr(device->protection_domain(), buffer.offset, region.bytes(), base,
                                buffer.fd, static_cast<int>(access | IBV_ACCESS_RELAXED_ORDERING));
  if (made == nullptr) return {{}, errno == 0 ? EIO : errno};
  return {MemoryRegion(device, made, base), 0};
}

Result<DeviceMemory> RegisterOther(const std::shared_ptr<Device>& device, Region& region,
                                   unsigned access) {
  std::string why;
  const Result<DmaBuf> buffer = region.ExportDmaBuf();
  if (buffer.ok()) {
    Outcome outcome = ByDmaBuf(device, region, access, *buffer);
    ::close(buffer->fd);
    if (outcome.region) return DeviceMemory{device, std::move(outcome.region), "dma-buf", {}};
    why = "its dma-buf: " + os::ErrnoText(outcome.error);
  } else {
    why = buffer.status().message();
  }
  // Only NVIDIA's module lends addresses of a GPU to a NIC.
  if (region.place().kind == "cuda") {
    Outcome outcome = ByAddress(device, region, access);
    if (outcome.region) return DeviceMemory{device, std::move(outcome.region), "peermem", {}};
    why += "; its address, by nvidia-peermem: " + os::ErrnoText(outcome.error);
  }
  return Status(Code::kFailedPrecondition, reasons::kGpuNotPinnable,
                device->name() + " cannot register memory of " + region.step_name() + ": " + why,
                "see onecopy doctor: it takes a kernel from 5.12 on and a driver with dma-buf, or "
                "the module nvidia-peermem");
}

}  // namespace

Status HostRefused(const Device& device, uint64_t bytes, int error) {
  const std::string what = device.name() + " cannot register " + FormatBytes(bytes) +
                           " of host memory: " + os::ErrnoText(error);
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (error == ENOMEM && limited && limit.rlim_cur < bytes) {
    return {Code::kResourceExhausted, reasons::kMemlock,
            what + ", and this process may lock " + FormatBytes(limit.rlim_cur) + " only",
            "set LimitMEMLOCK=infinity in the service's unit, or ulimit -l unlimited"};
  }
  return {Code::kFailedPrecondition, reasons::kHostNotPinnable, what};
}

MemoryRegion::~MemoryRegion() {
  if (region_ != nullptr) device_->api().DeregMr(region_);
}

MemoryRegion::MemoryRegion(MemoryRegion&& other) noexcept
    : device_(std::move(other.device_)),
      region_(std::exchange(other.region_, nullptr)),
      base_(other.base_) {}

MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(region_, other.region_);
  std::swap(base_, other.base_);
  return *this;
}

const DeviceMemory* KnownMemory::On(const Device* device) const {
  for (const DeviceMemory& memory : devices) {
    if (memory.device.get() == device && memory.region) return &memory;
  }
  return nullptr;
}

Result<DeviceMemory> RegisterWith(const std::shared_ptr<Device>& device, Region& region,
                                  unsigned access) {
  if (region.place().kind != "host") return RegisterOther(device, region, access);
  // Windows are bound to what allows it; a dma-buf's registration does not.
  if (device->has_windows()) access |= IBV_ACCESS_MW_BIND;
  Outcome outcome = ByAddress(device, region, access);
  if (!outcome.region) return HostRefused(*device, region.bytes(), outcome.error);
  return DeviceMemory{device, std::move(outcome.region), "host", {}};
}

Result<std::vector<NicRegistration>> MemoryTable::Register(const RegionRef& region) {
  const std::lock_guard one(registering_);
  std::shared_ptr<const KnownMemory> known = Find(*region);
  if (known == nullptr) {
    auto made = std::make_shared<KnownMemory>();
    Status refused(Code::kFailedPrecondition, reasons::kNoRdmaDevice, "there is no RDMA device");
    bool any = false;
    for (const std::shared_ptr<Device>& device : devices_) {
      Result<DeviceMemory> memory = RegisterWith(device, *region, IBV_ACCESS_LOCAL_WRITE);
      if (memory.ok()) {
        any = true;
        made->devices.push_back(std::move(*memory));
      } else {
        refused = memory.status();
        made->devices.push_back({device, {}, {}, memory.status()});
      }
    }
    if (!any) return refused;  // not remembered: what stands in the way may go
    known = made;
    {
      const std::lock_guard lock(mutex_);
      known_[region.get()] = known;
    }
    // The devices forget it before its memory goes; the table may be gone by then.
    region->OnRelease([weak = weak_from_this(), key = region.get(), made]() mutable {
      if (const auto table = weak.lock()) {
        const std::lock_guard lock(table->mutex_);
        table->known_.erase(key);
      }
      made.reset();
    });
  }
  std::vector<NicRegistration> registrations;
  for (const DeviceMemory& memory : known->devices) {
    for (const Port& port : memory.device->ports()) {
      registrations.push_back({port.name, memory.how, memory.status});
    }
  }
  return registrations;
}

std::shared_ptr<const KnownMemory> MemoryTable::Find(const Region& region) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(&region);
  return found == known_.end() ? nullptr : found->second;
}

}  // namespace onecopy::verbs
