// Everything that the doctor looks at, as a plain value: gathered from a machine, or planted by a
// test. What could not be looked at is empty, and says so where that matters.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "onecopy/capability.h"
#include "onecopy/node.h"
#include "onecopy/topology.h"

namespace onecopy::doctor {

struct Gid {
  std::string address;
  std::string type;    // "RoCE v2", "IB/RoCE v1"
  std::string netdev;  // that it belongs to; may be empty
};

struct Port {
  int number = 1;
  std::string state;       // "ACTIVE", "DOWN"
  std::string link_layer;  // "InfiniBand", "Ethernet"
  uint64_t bytes_per_second = 0;
  std::vector<Gid> gids;  // those that are set
  std::string netdev;
  uint32_t netdev_mtu = 0;  // bytes; 0: not known, as the others
  uint32_t active_mtu = 0;
  uint32_t max_mtu = 0;

  bool active() const { return state == "ACTIVE"; }
  bool ethernet() const { return link_layer == "Ethernet"; }
  bool HasRoceV2() const {
    return std::any_of(gids.begin(), gids.end(),
                       [](const Gid& gid) { return gid.type == "RoCE v2"; });
  }
};

struct Nic {
  std::string name;
  std::string address;  // PCI; empty: none
  bool emulated = false;
  std::vector<Port> ports;
  std::string driver = {};  // of its PCI function: "mlx5_core"; empty: not known
};

struct Gpu {
  std::string name;     // "NVIDIA H200"; empty where no driver tells it
  std::string uuid;     // likewise
  std::string address;  // PCI
  bool nvidia = true;
  uint64_t total_bytes = 0;
  uint64_t bar1_bytes = 0;
  std::optional<bool> dma_buf;          // the driver exports its memory so
  std::optional<bool> gpu_direct_rdma;  // what the driver says, not a proof
  std::optional<bool> persistence;
  std::vector<std::string> direct_peers;  // addresses of GPUs that it reaches
};

// A library or driver: there, or why not. The reason is one of reasons.h.
struct Part {
  bool found = false;
  std::string version;
  std::string reason;
  std::string detail;
  std::string remedy;
};

struct Ucx : Part {
  std::string modules_folder;
  std::vector<std::string> modules;  // file names
  bool verbs = false;
  bool cuda = false;
};

struct Kernel {
  std::string release;  // "6.1.0-13-amd64"
  int major = 0;        // 0: not known
  int minor = 0;
  std::string command_line;
  std::vector<std::string> options_off;  // of those that RDMA on dma-buf needs, known to be off
  std::optional<bool> peermem;  // nvidia_peermem is loaded; empty: the list is not readable
};

// A file below /dev/infiniband that a program opens, and why it could not be.
struct DeviceFile {
  std::string path;
  std::string error;  // empty: can be opened
};

// A file system on drives of this machine.
struct DriveMount {
  std::string folder;
  std::string type;                 // "ext4"
  std::string options;              // of its own, as mountinfo has them: "rw,data=ordered"
  std::vector<std::string> layers;  // see os::Drives
  std::vector<std::string> drives;  // "nvme0n1"
};

// What drives need to reach memory of GPUs (GPUDirect Storage).
struct Storage {
  std::optional<Part> library;    // libcufile; empty: not asked
  std::optional<bool> nvidia_fs;  // the module is loaded; empty: the list is not readable
  std::optional<bool> p2pdma;     // the kernel has peer-to-peer DMA; empty: not known
  // Drivers of drives that nvidia-fs knows, where it tells.
  std::optional<std::string> registered_drivers;
  std::vector<DriveMount> mounts;
};

struct Memlock {
  bool known = false;
  bool unlimited = false;  // or may lock without limit
  uint64_t bytes = 0;
};

struct Iommu {
  std::string address;  // of a GPU or network device
  std::string type;     // of its group: "DMA", "DMA-FQ" translate, "identity" does not
};

struct Acs {
  std::vector<std::string> redirecting;  // bridges above GPUs and NICs that send traffic up
  std::vector<std::string> unreadable;   // bridges whose configuration space is hidden
};

// Bytes that were moved from a peer to this node to find out whether they move; from a daemon.
struct Probe {
  std::string link;
  std::string nic;          // of this node; both empty: all lanes together
  std::string peer;         // node; empty: this node to itself
  std::string peer_nic;     // of the peer
  std::string memory;       // of this node: "cuda", "host"
  std::string peer_memory;  // likewise
  bool emulated = false;
  bool used = false;  // its lanes carry transfers
  bool viable = false;
  std::string reason;
  std::string detail;
  uint64_t bytes_per_second = 0;
  uint64_t expected_bytes_per_second = 0;  // the slower port's rate; 0: not known

  // From GPU to GPU.
  bool MovedGpuMemory() const {
    return viable && memory == "cuda" && peer_memory == "cuda" && bytes_per_second > 0;
  }
};

struct Peer {
  std::string name;
  bool connected = false;
  NodeCapability capabilities;
};

// Something that proves who the node is, and ends.
struct Expiry {
  std::string what;  // "the certificate of this node"
  std::string file;
  std::chrono::system_clock::time_point since;
  std::chrono::system_clock::time_point until;
};

struct Daemon {
  bool answered = false;
  std::string why_not;
  std::string run_dir;
  NodeCapability capabilities;
  std::vector<Peer> peers;
  std::vector<Expiry> expiries;                     // of what its [tls] names
  std::optional<Viability> metrics;                 // whether they are served; empty: not told
  std::vector<onecopy::NameConflict> conflicts;     // names that two daemons have
  std::optional<onecopy::DiscoveryInfo> discovery;  // empty: not told
  bool draining = false;
  std::vector<std::pair<std::string, std::string>>
      silent_addresses;                            // node, and where it is silent
  std::chrono::system_clock::time_point now = {};  // when it answered
};

struct Facts {
  Topology topology;
  std::string virtual_machine;  // by what it is known to be one; empty: it is none
  std::vector<Nic> nics;
  std::vector<DeviceFile> device_files;
  std::vector<Gpu> gpus;
  Part driver;  // CUDA
  Part nvml;
  Part verbs;
  Ucx ucx;
  Kernel kernel;
  Storage storage;
  Memlock memlock;
  std::string huge_pages;  // transparent ones: "always", "madvise", "never"; empty: not known
  std::vector<Iommu> iommu;
  Acs acs;
  Daemon daemon;
  std::vector<Probe> probes;

  // Hardware only.
  bool HasHardwareNic() const {
    return std::any_of(nics.begin(), nics.end(), [](const Nic& nic) { return !nic.emulated; });
  }
  bool HasNvidiaGpu() const {
    return std::any_of(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return gpu.nvidia; });
  }
};

}  // namespace onecopy::doctor
