#include "onecopy/capability.h"

namespace onecopy {
namespace {

// Empty where no memory of the node lies on that device.
std::string AddressOf(const NodeCapability& node, const std::string& gpu) {
  if (gpu.empty()) return {};
  for (const MemoryCapability& memory : node.memories) {
    if (memory.device == gpu) return memory.address;
  }
  return {};
}

}  // namespace

const MemoryCapability* NodeCapability::FindMemory(const std::string& kind,
                                                   const std::string& device) const {
  for (const MemoryCapability& memory : memories) {
    if (memory.kind == kind && memory.device == device) return &memory;
  }
  return nullptr;
}

bool LinkCapability::Reaches(const std::string& memory_kind) const {
  for (const NicCapability& nic : nics) {
    for (const NicMemory& memory : nic.memories) {
      if (memory.kind == memory_kind && memory.viability.viable) return true;
    }
  }
  return false;
}

const LinkCapability* NodeCapability::FindLink(const std::string& name) const {
  for (const LinkCapability& link : links) {
    if (link.name == name) return &link;
  }
  return nullptr;
}

Distance NodeCapability::GpuToNic(const std::string& gpu, const std::string& nic) const {
  return topology.Between(AddressOf(*this, gpu), nic);
}

Distance NodeCapability::GpuToGpu(const std::string& gpu, const std::string& other) const {
  return topology.Between(AddressOf(*this, gpu), AddressOf(*this, other));
}

}  // namespace onecopy
