// Which transports and devices this UCX has: read from what it prints of a context, since its
// interface has no other way to ask.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "onecopy/capability.h"

namespace onecopy::ucx {

struct Resource {
  std::string transport;  // "rc_verbs"
  std::string device;     // "rxe0:1", "lo", "memory", "cuda"

  friend bool operator==(const Resource&, const Resource&) = default;
};

// Of the text of ucp_context_print_info. Lines that are none of a resource are passed over.
std::vector<Resource> ParseResources(std::string_view text);

// "rxe0" of "rxe0:1".
std::string DeviceName(const Resource& resource);

// Whether another machine may be reached through one of them.
bool ReachNetwork(const std::vector<Resource>& resources);
bool HaveRdma(const std::vector<Resource>& resources);

// The default transports of this node: the local ones and, if a node on another machine is trusted,
// the RDMA ones. Never sockets: any process that reaches UCX's ports
// could write this process's memory.
std::vector<std::string> DefaultTransports(const std::vector<Resource>& resources, bool network);

// Devices for UCX_NET_DEVICES, as UCX names them, where `allows` leaves some out; empty where all
// of them may be used.
std::vector<std::string> AllowedDevices(const std::vector<Resource>& resources,
                                        const std::function<bool(const std::string&)>& allows);

struct NicFacts {
  std::vector<Resource> unused;  // RDMA ones, present but not used because no node is trusted
  bool cuda = false;             // this UCX knows CUDA's memory
  std::string host;              // identity of this machine
  std::function<bool(const std::string&)> is_emulated;
};

// The RDMA devices, and "cuda_ipc" for the GPUs of this machine, with the memories that they may
// carry: what UCX does not rule out, for probes to find out.
std::vector<NicCapability> NicsOf(const std::vector<Resource>& resources, const NicFacts& facts);

// Whether the kernel's RDMA device is a software one (rxe, siw): no hardware is behind it.
// `devices` is the folder in which the kernel shows them.
bool IsSoftwareDevice(const std::string& name,
                      const std::string& devices = "/sys/class/infiniband");

}  // namespace onecopy::ucx
