// GPUs, from sysfs, the CUDA driver and NVML.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include "client/doctor/gather_parts.h"
#include "transport/os/machine/sysfs.h"
#include "transport/shim/cuda.h"
#include "transport/shim/nvml.h"

namespace onecopy::doctor {
namespace {

void NotFound(const Status& status, Part& part) {
  part.reason = status.reason();
  part.detail = status.message();
  part.remedy = status.remedy();
}

// The second of a function's memory ranges: lines of "start end flags".
uint64_t SecondRangeBytes(const std::string& resource) {
  std::istringstream lines(resource);
  std::string line;
  std::getline(lines, line);
  if (!std::getline(lines, line)) return 0;
  char* rest = nullptr;
  const uint64_t start = std::strtoull(line.c_str(), &rest, 16);
  const uint64_t end = std::strtoull(rest, nullptr, 16);
  return end > start ? end - start + 1 : 0;
}

Gpu& FindOrAdd(Facts& facts, const std::string& typed_address) {
  const std::string address = NormalPciAddress(typed_address).value_or(typed_address);
  for (Gpu& gpu : facts.gpus) {
    if (gpu.address == address) return gpu;
  }
  facts.gpus.emplace_back().address = address;
  return facts.gpus.back();
}

std::optional<bool> Flag(const shim::CudaApi& api, CUdevice_attribute attribute, CUdevice device) {
  int value = 0;
  if (api.DeviceGetAttribute(&value, attribute, device) != CUDA_SUCCESS) return std::nullopt;
  return value != 0;
}

std::string AddressOf(const shim::CudaApi& api, CUdevice device) {
  std::array<char, 32> text{};
  if (api.DeviceGetPCIBusId(text.data(), text.size(), device) != CUDA_SUCCESS) return {};
  return text.data();
}

void AskDevice(const shim::CudaApi& api, CUdevice device, int count, Facts& facts) {
  Gpu& gpu = FindOrAdd(facts, AddressOf(api, device));
  if (const auto uuid = shim::ReadCudaUuid(api, device); uuid.ok()) gpu.uuid = uuid->text;
  std::array<char, 256> name{};
  if (api.DeviceGetName(name.data(), name.size(), device) == CUDA_SUCCESS) gpu.name = name.data();
  size_t bytes = 0;
  if (api.DeviceTotalMem(&bytes, device) == CUDA_SUCCESS) gpu.total_bytes = bytes;
  gpu.dma_buf = Flag(api, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device);
  gpu.gpu_direct_rdma = Flag(api, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, device);
  for (int i = 0; i < count; ++i) {
    CUdevice other = 0;
    int can = 0;
    if (api.DeviceGet(&other, i) != CUDA_SUCCESS || other == device) continue;
    if (api.DeviceCanAccessPeer(&can, device, other) != CUDA_SUCCESS || can == 0) continue;
    gpu.direct_peers.push_back(NormalPciAddress(AddressOf(api, other)).value_or(""));
  }
}

}  // namespace

void GatherGpus(const std::string& root, Facts& facts) {
  for (const TopologyDevice& device : facts.topology.devices) {
    if (device.kind != DeviceKind::kGpu) continue;
    const std::string folder = root + "/sys/bus/pci/devices/" + device.address + "/";
    Gpu gpu;
    gpu.address = device.address;
    gpu.nvidia = sysfs::ReadLine(folder + "vendor") == "0x10de";
    gpu.bar1_bytes = gpu.nvidia ? SecondRangeBytes(sysfs::ReadAll(folder + "resource")) : 0;
    facts.gpus.push_back(std::move(gpu));
  }
}

void AskCuda(Facts& facts) {
  const auto api = shim::LoadCuda();
  if (!api.ok()) return NotFound(api.status(), facts.driver);
  facts.driver.found = true;
  facts.driver.version = "CUDA " + shim::CudaVersionText((*api)->driver_version);
  int count = 0;
  if ((*api)->DeviceGetCount(&count) != CUDA_SUCCESS) return;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    if ((*api)->DeviceGet(&device, i) == CUDA_SUCCESS) AskDevice(**api, device, count, facts);
  }
}

void AskNvml(Facts& facts) {
  const auto info = shim::QueryNvml();
  if (!info.ok()) return NotFound(info.status(), facts.nvml);
  facts.nvml.found = true;
  facts.nvml.version = info->driver_version;
  for (const shim::NvmlGpu& seen : info->gpus) {
    Gpu& gpu = FindOrAdd(facts, seen.address);
    if (gpu.uuid.empty()) gpu.uuid = seen.uuid;
    if (gpu.name.empty()) gpu.name = seen.name;
    if (seen.bar1_bytes != 0) gpu.bar1_bytes = seen.bar1_bytes;
    gpu.persistence = seen.persistence;
  }
}

}  // namespace onecopy::doctor
