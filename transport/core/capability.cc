#include "transport/core/capability.h"

namespace onecopy {

const MemoryCapability* NodeCapability::FindMemory(const std::string& kind,
                                                   const std::string& device) const {
  for (const MemoryCapability& memory : memories) {
    if (memory.kind == kind && memory.device == device) return &memory;
  }
  return nullptr;
}

const LinkCapability* NodeCapability::FindLink(const std::string& name) const {
  for (const LinkCapability& link : links) {
    if (link.name == name) return &link;
  }
  return nullptr;
}

}  // namespace onecopy
