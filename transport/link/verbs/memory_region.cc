#include "transport/link/verbs/memory_region.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/base/error.h"
#include "transport/os/machine/machine.h"

namespace onecopy::verbs {
namespace {

constexpr uint64_t kLargestPage = uint64_t{1} << 30;  // of a processor or a GPU
// No end of memory is near the end of what addresses can name.
constexpr uint64_t kAddresses = uint64_t{1} << 62;

uint64_t PageBytes() {
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return page;
}

struct Outcome {
  MemoryRegion region;
  int error = 0;
};

// What the device is to call the first byte of memory that lies at `lies`. A driver maps a region
// by pages of the greatest size up to which the bits of this address agree with those of the bus,
// so the low bits stay as they lie, up to the largest page that the memory can fill. All peers
// share a protection domain, and a device's own numbers are soon guessed: what a peer may read by
// such a number lies where all bits above those are random.
uint64_t ChooseBase(uint64_t lies, uint64_t bytes, unsigned access) {
  if ((access & IBV_ACCESS_REMOTE_READ) == 0) return lies;
  const uint64_t page = std::clamp(std::bit_floor(bytes), PageBytes(), kLargestPage);
  return (os::RandomNumber() & (kAddresses - page)) | (lies & (page - 1));
}

Outcome ByAddress(const std::shared_ptr<Device>& device, std::byte* address, uint64_t bytes,
                  unsigned access) {
  const uint64_t base = ChooseBase(reinterpret_cast<uintptr_t>(address), bytes, access);
  errno = 0;
  ibv_mr* made =
      device->api().RegMr(device->protection_domain(), address, std::max<uint64_t>(bytes, 1), base,
                          access | IBV_ACCESS_RELAXED_ORDERING);
  if (made == nullptr) return {{}, errno == 0 ? EIO : errno};
  return {MemoryRegion(device, made, base), 0};
}

Outcome ByDmaBuf(const std::shared_ptr<Device>& device, Region& region, unsigned access,
                 const DmaBuf& buffer) {
  if (device->api().RegDmaBufMr == nullptr) return {{}, EOPNOTSUPP};
  // The kernel wants the address to lie in its page as the memory does in the dma-buf's.
  const uint64_t in_page = PageBytes() - 1;
  const uint64_t base =
      ChooseBase((buffer.lies & ~in_page) | (buffer.offset & in_page), region.bytes(), access);
  errno = 0;
  ibv_mr* made = nullptr;
  for (const unsigned ordering : {unsigned{IBV_ACCESS_RELAXED_ORDERING}, 0U}) {
    made = device->api().RegDmaBufMr(device->protection_domain(), buffer.offset, region.bytes(),
                                     base, buffer.fd, static_cast<int>(access | ordering));
    // A driver that does not know the flag refuses it here, where libibverbs does not leave it out.
    if (made != nullptr || (errno != EINVAL && errno != EOPNOTSUPP)) break;
  }
  if (made == nullptr) return {{}, errno == 0 ? EIO : errno};
  return {MemoryRegion(device, made, base), 0};
}

// A region is exported by one thread at a time; several devices may ask at once.
Result<DmaBuf> Export(Region& region) {
  static Mutex exporting;
  const MutexLock lock(exporting);
  return region.ExportDmaBuf();
}

Result<DeviceMemory> RegisterOther(const std::shared_ptr<Device>& device, Region& region,
                                   unsigned access) {
  std::string why;
  const Result<DmaBuf> buffer = Export(region);
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
    Outcome outcome = ByAddress(device, region.address(), region.bytes(), access);
    if (outcome.region) return DeviceMemory{device, std::move(outcome.region), "peermem", {}};
    why += "; its address, by nvidia-peermem: " + os::ErrnoText(outcome.error);
  }
  return Status(Code::kFailedPrecondition, reasons::kGpuNotPinnable,
                device->name() + " cannot register memory of " + region.step_name() + ": " + why,
                "it needs Linux 5.12 or later and a driver with dma-buf, or the module "
                "nvidia-peermem; run onecopy doctor");
}

// All at once, each on a thread of its own as far as there are threads to be had. Whether there was
// any to be asked.
bool RegisterAll(const std::vector<std::shared_ptr<Device>>& devices, Region& region,
                 KnownMemory* known) {
  std::vector<std::optional<Result<DeviceMemory>>> made(devices.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < devices.size(); ++i) {
    auto ask = [&, i] { made[i] = RegisterWith(devices[i], region, IBV_ACCESS_LOCAL_WRITE); };
    try {
      if (i + 1 < devices.size()) {
        threads.emplace_back(ask);
        continue;
      }
    } catch (const std::system_error&) {
      // No thread to be had: here, then.
    }
    ask();
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < devices.size(); ++i) {
    Result<DeviceMemory>& outcome = *made[i];
    known->devices.push_back(std::make_shared<const DeviceMemory>(
        outcome.ok() ? std::move(*outcome) : DeviceMemory{devices[i], {}, {}, outcome.status()}));
  }
  return !devices.empty();
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
  for (const auto& memory : devices) {
    if (memory->device.get() == device && memory->region) return memory.get();
  }
  return nullptr;
}

bool KnownMemory::Usable() const {
  return std::any_of(devices.begin(), devices.end(),
                     [](const auto& memory) { return static_cast<bool>(memory->region); });
}

Result<DeviceMemory> RegisterWith(const std::shared_ptr<Device>& device, Region& region,
                                  unsigned access) {
  if (region.place().kind != "host") return RegisterOther(device, region, access);
  // Windows are bound to what allows it; a dma-buf's registration does not.
  if (device->has_windows()) access |= IBV_ACCESS_MW_BIND;
  Outcome outcome = ByAddress(device, region.address(), region.bytes(), access);
  if (!outcome.region) return HostRefused(*device, region.bytes(), outcome.error);
  return DeviceMemory{device, std::move(outcome.region), "host", {}};
}

Result<DeviceMemory> RegisterSpan(const std::shared_ptr<Device>& device, const Span& span,
                                  unsigned access) {
  if (span.region->place().kind != "host") {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  "a piece of " + span.region->step_name() + " cannot be lent on its own");
  }
  Outcome outcome = ByAddress(device, span.address(), span.bytes, access);
  if (!outcome.region) return HostRefused(*device, span.bytes, outcome.error);
  return DeviceMemory{device, std::move(outcome.region), "host", {}};
}

std::shared_ptr<MemoryTable::Entry> MemoryTable::EntryOf(const RegionRef& region) {
  const MutexLock lock(mutex_);
  std::shared_ptr<Entry>& entry = entries_[region.get()];
  if (entry != nullptr) return entry;
  entry = std::make_shared<Entry>();
  // The devices forget it before its memory goes; the table may be gone by then.
  region->OnRelease([weak = weak_from_this(), key = region.get(), entry = entry] {
    if (const auto table = weak.lock()) {
      const MutexLock lock(table->mutex_);
      table->entries_.erase(key);
    }
    std::shared_ptr<const KnownMemory> forgotten;
    const MutexLock lock(entry->mutex);
    forgotten.swap(entry->known);
  });
  return entry;
}

std::vector<std::shared_ptr<Device>> MemoryTable::Unasked(
    const KnownMemory& known, const std::vector<std::string>& nics) const {
  std::vector<std::shared_ptr<Device>> unasked;
  for (const std::shared_ptr<Device>& device : devices_) {
    const bool asked = std::any_of(known.devices.begin(), known.devices.end(),
                                   [&](const auto& one) { return one->device == device; });
    const std::vector<Port> ports = device->ports();
    const bool wanted =
        nics.empty() || std::any_of(ports.begin(), ports.end(), [&](const Port& port) {
          return std::find(nics.begin(), nics.end(), port.name) != nics.end();
        });
    if (wanted && !asked) unasked.push_back(device);
  }
  return unasked;
}

Result<std::vector<NicRegistration>> MemoryTable::Register(const RegionRef& region,
                                                           const std::vector<std::string>& nics) {
  const std::shared_ptr<Entry> entry = EntryOf(region);
  const MutexLock one(entry->registering);
  auto known = std::make_shared<KnownMemory>();
  if (const auto before = Find(*region)) *known = *before;
  bool more = RegisterAll(Unasked(*known, nics), *region, known.get());
  if (!known->Usable()) more |= RegisterAll(Unasked(*known, {}), *region, known.get());
  if (!known->Usable()) {  // not remembered: what stands in the way may go
    if (!known->devices.empty()) return known->devices.back()->status;
    return Status(Code::kFailedPrecondition, reasons::kNoRdmaDevice, "there is no RDMA device");
  }
  if (more) {
    const MutexLock lock(entry->mutex);
    entry->known = known;
  }
  std::vector<NicRegistration> registrations;
  for (const auto& memory : known->devices) {
    for (const Port& port : memory->device->ports()) {
      registrations.push_back({port.name, memory->how, memory->status});
    }
  }
  return registrations;
}

std::shared_ptr<const KnownMemory> MemoryTable::Find(const Region& region) const {
  std::shared_ptr<Entry> entry;
  {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(&region);
    if (found == entries_.end()) return nullptr;
    entry = found->second;
  }
  const MutexLock lock(entry->mutex);
  return entry->known;
}

}  // namespace onecopy::verbs
