#include "transport/link/ucx/resources.h"

#include <unistd.h>

#include <algorithm>

#include "onecopy/reasons.h"
#include "transport/link/ucx/protocol.h"

namespace onecopy::ucx {
namespace {

void AddOnce(std::vector<std::string>& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

// "#      resource 6  :  md 4  dev 5  flags -- rc_verbs/rxe0:1"
bool ParseLine(std::string_view line, Resource& resource) {
  const size_t at = line.find("resource ");
  if (at == std::string_view::npos || line.find(" dev ") == std::string_view::npos) return false;
  const size_t end = line.find_last_not_of(" \r") + 1;
  const size_t begin = line.rfind(' ', end - 1) + 1;
  const std::string_view name = line.substr(begin, end - begin);
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash + 1 == name.size()) return false;
  resource.transport = name.substr(0, slash);
  resource.device = name.substr(slash + 1);
  return true;
}

}  // namespace

std::vector<Resource> ParseResources(std::string_view text) {
  std::vector<Resource> resources;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    Resource resource;
    if (ParseLine(text.substr(0, end), resource)) resources.push_back(std::move(resource));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return resources;
}

std::string DeviceName(const Resource& resource) {
  return resource.device.substr(0, resource.device.find(':'));
}

bool ReachNetwork(const std::vector<Resource>& resources) {
  return std::any_of(resources.begin(), resources.end(),
                     [](const Resource& r) { return !IsLocalTransport(r.transport); });
}

bool HaveRdma(const std::vector<Resource>& resources) {
  return std::any_of(resources.begin(), resources.end(),
                     [](const Resource& r) { return IsRdmaTransport(r.transport); });
}

std::vector<std::string> DefaultTransports(const std::vector<Resource>& resources, bool network) {
  std::vector<std::string> transports;
  for (const Resource& resource : resources) {
    const bool local = IsLocalTransport(resource.transport);
    const bool rdma = network && IsRdmaTransport(resource.transport);
    if (local || rdma) AddOnce(transports, resource.transport);
  }
  return transports;
}

std::vector<std::string> AllowedDevices(const std::vector<Resource>& resources,
                                        const std::function<bool(const std::string&)>& allows) {
  std::vector<std::string> allowed;
  bool all = true;
  for (const Resource& resource : resources) {
    if (IsLocalTransport(resource.transport)) continue;
    // What is chosen under [rdma] says nothing about sockets.
    if (!IsRdmaTransport(resource.transport) || allows(DeviceName(resource))) {
      AddOnce(allowed, resource.device);
    } else {
      all = false;
    }
  }
  if (all) allowed.clear();
  return allowed;
}

std::vector<NicCapability> NicsOf(const std::vector<Resource>& resources, const NicFacts& facts) {
  const Viability no_cuda =
      Viability::No(reasons::kGpuNotPinnable, "this UCX was built without CUDA",
                    "set [libraries] ucx to a UCX with CUDA, or use the link verbs");
  const Viability untrusted = Viability::No(
      reasons::kInsecure,
      "UCX's keys and ports let other nodes write memory, and [ucx] trust names no node",
      "name nodes under [ucx] trust and set [tls], or use the link verbs");
  std::vector<NicCapability> nics;
  auto add = [&](const Resource& resource, const Viability& viability) {
    const std::string name = DeviceName(resource);
    const bool known = std::any_of(nics.begin(), nics.end(),
                                   [&](const NicCapability& nic) { return nic.name == name; });
    if (known || !IsRdmaTransport(resource.transport)) return;
    NicCapability nic;
    nic.name = name;
    nic.emulated = facts.is_emulated(name);
    nic.viability = viability;
    nic.memories = {{"host", {}, {}}, {"cuda", {}, facts.cuda ? Viability() : no_cuda}};
    nics.push_back(std::move(nic));
  };
  bool cuda_ipc = false;
  bool sockets = false;
  for (const Resource& resource : resources) {
    cuda_ipc |= resource.transport == "cuda_ipc";
    sockets |= resource.transport == "tcp";
    add(resource, {});
  }
  for (const Resource& resource : facts.unused) add(resource, untrusted);
  if (cuda_ipc) {
    NicCapability nic;
    nic.name = "cuda_ipc";
    nic.fabric = facts.host;
    nic.memories = {{"cuda", {}, facts.cuda ? Viability() : no_cuda}};
    nics.push_back(std::move(nic));
  }
  if (sockets) {
    // All interfaces together: which of them UCX takes is its own affair.
    NicCapability nic;
    nic.name = "tcp";
    nic.memories = {{"host", {}, {}}, {"cuda", {}, facts.cuda ? Viability() : no_cuda}};
    nics.push_back(std::move(nic));
  }
  return nics;
}

bool IsSoftwareDevice(const std::string& name, const std::string& devices) {
  const std::string folder = devices + "/" + name;
  return ::access(folder.c_str(), F_OK) == 0 && ::access((folder + "/device").c_str(), F_OK) != 0;
}

}  // namespace onecopy::ucx
