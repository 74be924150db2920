// What a node can do, as values that two nodes exchange in their handshake and that the planner
// compares. A capability that is absent is as good as one that is not viable, but without a reason:
// backends always describe themselves.
#pragma once

#include "onecopy/language.h"  // first

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "onecopy/topology.h"

namespace onecopy {

// Whether something can be used now and, where not, why and what to do about it.
struct Viability {
  bool viable = true;
  std::string reason;  // reasons.h; empty when viable
  std::string detail;
  std::string remedy;

  static Viability No(std::string_view reason, std::string detail, std::string remedy = {}) {
    return {false, std::string(reason), std::move(detail), std::move(remedy)};
  }
  friend bool operator==(const Viability&, const Viability&) = default;
};

// One device of one kind of memory; host memory is one device without UUID. A backend without any
// device describes itself by one entry that is not viable.
// Kinds of memory that its process alone reaches and copies: what it allocated itself, and of GPUs
// what no other process can map.
inline constexpr const char* kProcessKind = "process";
inline constexpr const char* kProcessGpuKind = "process-gpu";
inline bool IsOfProcess(std::string_view kind) {
  return kind == kProcessKind || kind == kProcessGpuKind;
}

struct MemoryCapability {
  std::string kind;      // "host", "cuda", "dmabuf", or as above
  std::string device;    // UUID of a GPU, "GPU-5f…"
  std::string name;      // "NVIDIA H200"
  std::string address;   // PCI address
  int32_t ordinal = -1;  // N of "cuda:N", in nvidia-smi's order
  uint64_t total_bytes = 0;
  bool cpu_addressable = false;
  // UUIDs of the GPUs of this node whose memory this one reads and writes without a host buffer
  // between.
  std::vector<std::string> direct_peers;
  std::vector<std::string> nvlink_peers;  // those of them that NVLink joins it to, as far as known
  // Of a GPU: many ranges that are shorter, on the average, a kernel gathers and scatters, longer
  // ones the copy engines; 0: never the kernel.
  uint64_t kernel_below_bytes_host = 0;  // between the GPU and host memory
  uint64_t kernel_below_bytes_gpu = 0;   // between GPUs, and inside one
  Viability viability;
  std::map<std::string, std::string>
      attributes;  // for people: "compute_capability", "gpu_direct_rdma", …

  friend bool operator==(const MemoryCapability&, const MemoryCapability&) = default;
};

// Whether a network device can read and write one kind of memory by itself.
struct NicMemory {
  std::string kind;
  std::string device;  // UUID of the GPU; empty for host memory and for "all of this kind"
  Viability viability;

  friend bool operator==(const NicMemory&, const NicMemory&) = default;
};

struct NicCapability {
  std::string name;     // "mlx5_0", "rxe0", "lo"
  std::string address;  // GID or IP address
  std::string fabric;  // two devices reach each other only where this is equal (rail-only networks)
  uint64_t bytes_per_second = 0;  // 0: unknown
  bool emulated = false;          // a software device
  Viability viability;
  std::vector<NicMemory> memories;

  friend bool operator==(const NicCapability&, const NicCapability&) = default;
};

struct LinkCapability {
  std::string name;     // "verbs", "ucx", "tcp"
  std::string version;  // compared where `version_must_match`
  bool version_must_match = false;
  bool rdma = false;  // the remote side takes no part in a get
  Viability viability;
  std::vector<NicCapability> nics;
  std::map<std::string, std::string> attributes;

  // Whether one of its devices reads and writes memory of this kind.
  bool Reaches(const std::string& memory_kind) const;

  friend bool operator==(const LinkCapability&, const LinkCapability&) = default;
};

struct StoreCapability {
  std::string name;  // "posix", "cufile"
  Viability viability;
  std::map<std::string, std::string> attributes;

  friend bool operator==(const StoreCapability&, const StoreCapability&) = default;
};

struct NodeCapability {
  std::string node;
  std::string host;  // identity of the machine: equal for two daemons of one host
  std::vector<MemoryCapability> memories;
  std::vector<LinkCapability> links;
  std::vector<StoreCapability> stores;
  Topology topology;

  const MemoryCapability* FindMemory(const std::string& kind, const std::string& device) const;
  const LinkCapability* FindLink(const std::string& name) const;

  // Between a GPU, by its UUID, and the network device of this name, or another GPU likewise.
  // Unknown where either has no place in the topology.
  Distance GpuToNic(const std::string& gpu, const std::string& nic) const;
  Distance GpuToGpu(const std::string& gpu, const std::string& other) const;

  friend bool operator==(const NodeCapability&, const NodeCapability&) = default;
};

}  // namespace onecopy
