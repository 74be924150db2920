#include "transport/shim/nvml.h"

#include <array>
#include <type_traits>

#include "onecopy/reasons.h"
#include "transport/shim/library.h"

namespace onecopy::shim {
namespace {

// What is used of nvml.h, which does not come with the toolkit everywhere. The library keeps the
// layout of what a function of this name and suffix takes.
using Return = int;
using Device = struct NvmlDevice*;
constexpr Return kSuccess = 0;

constexpr char kPackage[] =
    "NVIDIA's driver (libnvidia-ml1 on Debian, libnvidia-compute-VERSION on Ubuntu)";

struct Bar1Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct PciInfo {
  std::array<char, 16> legacy_bus_id;
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int device_id;
  unsigned int subsystem_id;
  std::array<char, 32> bus_id;
};
struct FieldValue {
  unsigned int field;
  unsigned int scope;
  long long time;
  long long latency;
  int type;
  Return outcome;
  union {
    double real;
    unsigned int number;
    unsigned long long long_number;
  } value;
};
static_assert(sizeof(Bar1Memory) == 24 && sizeof(PciInfo) == 68 && sizeof(FieldValue) == 40);

constexpr unsigned int kNvlinkDataSent = 138;  // a field, in KiB
constexpr unsigned int kAllLinks = 0xffffffff;
constexpr int kUnsignedLongLong = 3;  // a type of values
constexpr int kByNvlink = 2;          // of what a status between two GPUs is asked

struct Api {
  Return (*Init)();
  Return (*Shutdown)();
  const char* (*ErrorString)(Return);
  Return (*SystemGetDriverVersion)(char*, unsigned int);
  Return (*DeviceGetCount)(unsigned int*);
  Return (*DeviceGetHandleByIndex)(unsigned int, Device*);
  Return (*DeviceGetUuid)(Device, char*, unsigned int);
  Return (*DeviceGetName)(Device, char*, unsigned int);
  Return (*DeviceGetPciInfo)(Device, PciInfo*);
  Return (*DeviceGetBar1MemoryInfo)(Device, Bar1Memory*);
  Return (*DeviceGetPersistenceMode)(Device, int*);
  // Null where the library does not have them.
  Return (*DeviceGetHandleByUuid)(const char*, Device*);
  Return (*DeviceGetFieldValues)(Device, int, FieldValue*);
  Return (*DeviceGetP2PStatus)(Device, Device, int, int*);
};

Result<Api> Resolve(const Library& library) {
  Api api{};
  std::string missing;
  const auto look = [&](auto& member, const char* symbol) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(library.Find(symbol));
  };
  const auto find = [&](auto& member, const char* symbol) {
    look(member, symbol);
    if (member == nullptr) missing += std::string(" ") + symbol;
  };
  find(api.Init, "nvmlInit_v2");
  find(api.Shutdown, "nvmlShutdown");
  find(api.ErrorString, "nvmlErrorString");
  find(api.SystemGetDriverVersion, "nvmlSystemGetDriverVersion");
  find(api.DeviceGetCount, "nvmlDeviceGetCount_v2");
  find(api.DeviceGetHandleByIndex, "nvmlDeviceGetHandleByIndex_v2");
  find(api.DeviceGetUuid, "nvmlDeviceGetUUID");
  find(api.DeviceGetName, "nvmlDeviceGetName");
  find(api.DeviceGetPciInfo, "nvmlDeviceGetPciInfo_v3");
  find(api.DeviceGetBar1MemoryInfo, "nvmlDeviceGetBAR1MemoryInfo");
  find(api.DeviceGetPersistenceMode, "nvmlDeviceGetPersistenceMode");
  look(api.DeviceGetHandleByUuid, "nvmlDeviceGetHandleByUUID");
  look(api.DeviceGetFieldValues, "nvmlDeviceGetFieldValues");
  look(api.DeviceGetP2PStatus, "nvmlDeviceGetP2PStatus");
  if (missing.empty()) return api;
  return Status(Code::kFailedPrecondition, reasons::kNoDriver, library.name() + " lacks" + missing,
                "install NVIDIA's driver, which includes it");
}

Status Failed(const Api& api, const char* what, Return error) {
  const char* text = api.ErrorString(error);
  return {Code::kFailedPrecondition, reasons::kDriverFailed,
          std::string(what) + ": " + (text == nullptr ? "?" : text) + " (" + std::to_string(error) +
              ")",
          "check that nvidia-smi works"};
}

NvmlGpu Describe(const Api& api, Device device) {
  NvmlGpu gpu;
  std::array<char, 96> text{};
  if (api.DeviceGetUuid(device, text.data(), text.size()) == kSuccess) gpu.uuid = text.data();
  text = {};
  if (api.DeviceGetName(device, text.data(), text.size()) == kSuccess) gpu.name = text.data();
  PciInfo pci{};
  if (api.DeviceGetPciInfo(device, &pci) == kSuccess) {
    pci.bus_id.back() = '\0';
    gpu.address = pci.bus_id.data();
  }
  Bar1Memory bar1{};
  if (api.DeviceGetBar1MemoryInfo(device, &bar1) == kSuccess) gpu.bar1_bytes = bar1.total;
  int mode = 0;
  if (api.DeviceGetPersistenceMode(device, &mode) == kSuccess) gpu.persistence = mode != 0;
  return gpu;
}

}  // namespace

Result<NvmlInfo> QueryNvml(const std::string& path) {
  ONECOPY_ASSIGN_OR_RETURN(const Library library, Library::Open(path, "libnvidia-ml.so.1", "nvml",
                                                                reasons::kNoDriver, kPackage));
  ONECOPY_ASSIGN_OR_RETURN(const Api api, Resolve(library));
  if (const Return error = api.Init(); error != kSuccess) return Failed(api, "nvmlInit", error);
  NvmlInfo info;
  std::array<char, 96> version{};
  if (api.SystemGetDriverVersion(version.data(), version.size()) == kSuccess) {
    info.driver_version = version.data();
  }
  unsigned int count = 0;
  const Return counted = api.DeviceGetCount(&count);
  for (unsigned int i = 0; counted == kSuccess && i < count; ++i) {
    Device device = nullptr;
    if (api.DeviceGetHandleByIndex(i, &device) == kSuccess) {
      info.gpus.push_back(Describe(api, device));
    }
  }
  api.Shutdown();
  if (counted != kSuccess) return Failed(api, "nvmlDeviceGetCount", counted);
  return info;
}

struct Nvlink::State {
  Library library;
  Api api;

  Device Find(const std::string& uuid) const {
    Device device = nullptr;
    if (api.DeviceGetHandleByUuid == nullptr) return nullptr;
    return api.DeviceGetHandleByUuid(uuid.c_str(), &device) == kSuccess ? device : nullptr;
  }
};

Nvlink::Nvlink(std::unique_ptr<State> state) : state_(std::move(state)) {}
Nvlink::~Nvlink() { state_->api.Shutdown(); }

Result<std::shared_ptr<Nvlink>> Nvlink::Open(const std::string& path) {
  ONECOPY_ASSIGN_OR_RETURN(Library library, Library::Open(path, "libnvidia-ml.so.1", "nvml",
                                                          reasons::kNoDriver, kPackage));
  ONECOPY_ASSIGN_OR_RETURN(const Api api, Resolve(library));
  if (const Return error = api.Init(); error != kSuccess) return Failed(api, "nvmlInit", error);
  return std::shared_ptr<Nvlink>(
      new Nvlink(std::make_unique<State>(State{std::move(library), api})));
}

std::optional<uint64_t> Nvlink::SentBytes(const std::string& uuid) const {
  const Device device = state_->Find(uuid);
  if (device == nullptr || state_->api.DeviceGetFieldValues == nullptr) return std::nullopt;
  FieldValue sent{};
  sent.field = kNvlinkDataSent;
  sent.scope = kAllLinks;
  if (state_->api.DeviceGetFieldValues(device, 1, &sent) != kSuccess) return std::nullopt;
  if (sent.outcome != kSuccess || sent.type != kUnsignedLongLong) return std::nullopt;
  return sent.value.long_number * 1024;
}

std::optional<bool> Nvlink::Joins(const std::string& uuid, const std::string& other) const {
  const Device device = state_->Find(uuid);
  const Device peer = state_->Find(other);
  if (device == nullptr || peer == nullptr || state_->api.DeviceGetP2PStatus == nullptr) {
    return std::nullopt;
  }
  int status = 0;
  const Return asked = state_->api.DeviceGetP2PStatus(device, peer, kByNvlink, &status);
  if (asked != kSuccess) return std::nullopt;
  return status == 0;
}

}  // namespace onecopy::shim
