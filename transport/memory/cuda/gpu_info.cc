#include "transport/memory/cuda/gpu_info.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "onecopy/reasons.h"

namespace onecopy::cuda {
namespace {

constexpr size_t kMinUuidDigits = 8;

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool IsHexDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

// All of `text` as a number; nothing for anything else.
std::optional<uint32_t> ParseNumber(std::string_view text, int base) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Domain, bus, device, function.
using PciAddress = std::array<uint32_t, 4>;

// "[domain:]bus:device.function", all hexadecimal.
std::optional<PciAddress> ParsePci(std::string_view text) {
  PciAddress address{};
  const size_t dot = text.rfind('.');
  const size_t colon = text.rfind(':');
  if (dot == text.npos || colon == text.npos || dot < colon) return std::nullopt;
  const size_t domain_colon = colon == 0 ? text.npos : text.rfind(':', colon - 1);
  const size_t bus_at = domain_colon == text.npos ? 0 : domain_colon + 1;
  const std::array parts = {
      domain_colon == text.npos ? std::string_view("0") : text.substr(0, domain_colon),
      text.substr(bus_at, colon - bus_at), text.substr(colon + 1, dot - colon - 1),
      text.substr(dot + 1)};
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::optional<uint32_t> number = ParseNumber(parts[i], 16);
    if (!number) return std::nullopt;
    address[i] = *number;
  }
  return address;
}

// The hexadecimal digits of a UUID or its beginning, in lower case and without dashes; empty for
// what is none.
std::string UuidDigits(const std::string& typed) {
  std::string rest = LowerCase(typed);
  if (rest.starts_with("gpu-") || rest.starts_with("mig-")) rest.erase(0, 4);
  std::erase(rest, '-');
  const bool right = rest.size() >= kMinUuidDigits && rest.size() <= 32 &&
                     std::all_of(rest.begin(), rest.end(), IsHexDigit);
  return right ? rest : std::string();
}

std::optional<uint32_t> ParseOrdinal(const std::string& typed) {
  if (!typed.starts_with("cuda:")) return std::nullopt;
  return ParseNumber(std::string_view(typed).substr(5), 10);
}

bool Means(const GpuInfo& gpu, const std::string& typed) {
  if (typed == "cuda") return true;
  if (const auto ordinal = ParseOrdinal(typed)) {
    return *ordinal == static_cast<uint32_t>(gpu.ordinal);
  }
  if (const std::string digits = UuidDigits(typed); !digits.empty()) {
    return UuidDigits(gpu.uuid).starts_with(digits);
  }
  const auto address = ParsePci(LowerCase(typed));
  return address && address == ParsePci(gpu.pci);
}

std::string ListText(const std::vector<GpuInfo>& gpus) {
  std::string text;
  for (const GpuInfo& gpu : gpus) {
    text += (text.empty() ? "cuda:" : ", cuda:") + std::to_string(gpu.ordinal) + " " + gpu.uuid +
            " at " + gpu.pci;
  }
  return text;
}

// One GPU, by the driver's number. `error` is the first failure, if any.
GpuInfo ReadGpu(const shim::CudaApi& api, int driver_ordinal, CUresult& error) {
  GpuInfo gpu;
  gpu.driver_ordinal = driver_ordinal;
  const auto check = [&](CUresult result) {
    if (error == CUDA_SUCCESS) error = result;
  };
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    check(api.DeviceGetAttribute(&value, which, gpu.device));
    return value;
  };
  check(api.DeviceGet(&gpu.device, driver_ordinal));
  std::array<char, 256> name{};
  check(api.DeviceGetName(name.data(), static_cast<int>(name.size()), gpu.device));
  gpu.name = name.data();
  std::array<char, 64> pci{};
  check(api.DeviceGetPCIBusId(pci.data(), static_cast<int>(pci.size()), gpu.device));
  gpu.pci = LowerCase(pci.data());
  size_t total = 0;
  check(api.DeviceTotalMem(&total, gpu.device));
  gpu.total_bytes = total;
  gpu.compute_major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  gpu.compute_minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  gpu.gpu_direct_rdma = attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) != 0;
  gpu.posix_fd_handles =
      attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 0;
  gpu.dma_buf = attribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) != 0;
  gpu.writes_ordering = attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
  gpu.flushes = api.FlushGPUDirectRDMAWrites != nullptr &&
                (attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) &
                 CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) != 0;
  if (api.DeviceGetAttribute(&gpu.numa_node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, gpu.device) !=
      CUDA_SUCCESS) {
    gpu.numa_node = -1;  // for people only
  }
  return gpu;
}

// Between GPUs that reach each other, only NVLink carries their atomics.
bool HasNvlink(const shim::CudaApi& api, CUdevice gpu, CUdevice peer) {
  int atomics = 0;
  return api.DeviceGetP2PAttribute != nullptr &&
         api.DeviceGetP2PAttribute(&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, gpu,
                                   peer) == CUDA_SUCCESS &&
         atomics != 0;
}

Status Failed(const shim::CudaApi& api, int driver_ordinal, CUresult error) {
  return {Code::kFailedPrecondition, reasons::kDriverFailed,
          "asking the driver about its GPU " + std::to_string(driver_ordinal) + ": " +
              shim::CudaErrorText(api, error),
          "check that nvidia-smi works"};
}

}  // namespace

Result<std::vector<GpuInfo>> ListGpus(const shim::CudaApi& api) {
  int count = 0;
  if (const CUresult error = api.DeviceGetCount(&count); error != CUDA_SUCCESS) {
    return Failed(api, 0, error);
  }
  std::vector<GpuInfo> gpus;
  for (int i = 0; i < count; ++i) {
    CUresult error = CUDA_SUCCESS;
    gpus.push_back(ReadGpu(api, i, error));
    if (error != CUDA_SUCCESS) return Failed(api, i, error);
    ONECOPY_ASSIGN_OR_RETURN(shim::CudaUuid uuid, shim::ReadCudaUuid(api, gpus.back().device));
    gpus.back().uuid = std::move(uuid.text);
    gpus.back().mig = uuid.mig;
  }
  // Stable: the instances of one GPU in MIG mode share its address.
  std::stable_sort(gpus.begin(), gpus.end(), [](const GpuInfo& a, const GpuInfo& b) {
    return ParsePci(a.pci) < ParsePci(b.pci);
  });
  for (size_t i = 0; i < gpus.size(); ++i) gpus[i].ordinal = static_cast<int>(i);
  for (GpuInfo& gpu : gpus) {
    for (const GpuInfo& peer : gpus) {
      int can = 0;
      if (peer.device == gpu.device) continue;
      const CUresult error = api.DeviceCanAccessPeer(&can, gpu.device, peer.device);
      if (error != CUDA_SUCCESS) return Failed(api, gpu.driver_ordinal, error);
      if (can == 0) continue;
      gpu.direct_peers.push_back(peer.uuid);
      if (HasNvlink(api, gpu.device, peer.device)) gpu.nvlink_peers.push_back(peer.uuid);
    }
  }
  return gpus;
}

bool LooksLikeGpu(const std::string& typed) {
  return typed == "cuda" || ParseOrdinal(typed) || !UuidDigits(typed).empty() ||
         ParsePci(LowerCase(typed));
}

Result<size_t> FindGpu(const std::vector<GpuInfo>& gpus, const std::string& typed) {
  std::optional<size_t> found;
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (!Means(gpus[i], typed)) continue;
    if (found) {
      return Status(Code::kInvalidArgument, reasons::kBadArgument,
                    "\"" + typed + "\" names several GPUs: " + ListText(gpus),
                    "name one of them, such as cuda:0");
    }
    found = i;
  }
  if (found) return *found;
  return Status(Code::kNotFound, reasons::kDeviceNotFound,
                "there is no GPU \"" + typed + "\" here; there is " + ListText(gpus));
}

MemoryCapability Describe(const GpuInfo& gpu, Viability viability) {
  MemoryCapability capability;
  capability.kind = "cuda";
  capability.device = gpu.uuid;
  capability.name = gpu.name;
  capability.address = gpu.pci;
  capability.ordinal = gpu.ordinal;
  capability.total_bytes = gpu.total_bytes;
  capability.direct_peers = gpu.direct_peers;
  capability.nvlink_peers = gpu.nvlink_peers;
  capability.viability = std::move(viability);
  capability.attributes["compute_capability"] =
      std::to_string(gpu.compute_major) + "." + std::to_string(gpu.compute_minor);
  capability.attributes["gpu_direct_rdma"] = gpu.gpu_direct_rdma ? "yes" : "no";
  capability.attributes["dma_buf"] = gpu.dma_buf ? "yes" : "no";
  if (gpu.mig) capability.attributes["mig"] = "yes";
  if (gpu.numa_node >= 0) capability.attributes["numa_node"] = std::to_string(gpu.numa_node);
  return capability;
}

}  // namespace onecopy::cuda
