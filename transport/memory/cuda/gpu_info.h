// What is known about the GPUs of this machine without opening any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "onecopy/capability.h"
#include "onecopy/result.h"
#include "transport/shim/cuda.h"

namespace onecopy::cuda {

struct GpuInfo {
  int ordinal = 0;         // N of "cuda:N": the order of PCI addresses, which is nvidia-smi's
  int driver_ordinal = 0;  // the driver's own number, which depends on CUDA_DEVICE_ORDER
  CUdevice device = 0;     // the driver's handle
  std::string uuid;        // "GPU-5f…"
  bool mig = false;        // a slice of a GPU: nothing can be imported there
  std::string name;
  std::string pci;  // "0000:1b:00.0"
  uint64_t total_bytes = 0;
  int compute_major = 0;
  int compute_minor = 0;
  bool gpu_direct_rdma = false;  // of cuMemCreate memory; what the driver says, not a proof
  bool posix_fd_handles = false;
  bool dma_buf = false;     // what the driver says
  int writes_ordering = 0;  // who reads remote writes without a flush, as the driver counts it
  bool flushes = false;     // cuFlushGPUDirectRDMAWrites works
  int numa_node = -1;       // -1: unknown
  std::vector<std::string> direct_peers;  // UUIDs; what the driver says, proven by Prepare
  std::vector<std::string> nvlink_peers;  // those of them that it has atomics with
};

// Asks the driver about every GPU that it shows. Opens no context. DRIVER_FAILED with the driver's
// own error when it does not answer.
Result<std::vector<GpuInfo>> ListGpus(const shim::CudaApi& api);

// Whether `typed` has the form of a GPU's name: "cuda", "cuda:N", a UUID or its beginning, a PCI
// address.
bool LooksLikeGpu(const std::string& typed);

// Index of the GPU that a person means by `typed`: "cuda:N"; "cuda" where there is one only; a UUID
// in any case, or its beginning (8 digits at least, with or without "GPU-"); a PCI address with or
// without its domain. NOT_FOUND; INVALID_ARGUMENT for what names several.
Result<size_t> FindGpu(const std::vector<GpuInfo>& gpus, const std::string& typed);

MemoryCapability Describe(const GpuInfo& gpu, Viability viability);

}  // namespace onecopy::cuda
