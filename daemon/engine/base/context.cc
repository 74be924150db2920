#include "daemon/engine/base/context.h"

#include "onecopy/reasons.h"

namespace onecopy::engine {

Status Context::Draining() const {
  if (ending || stopping) {
    return {Code::kUnavailable, reasons::kDraining,
            "node " + node() + " is shutting down and takes no new transfers"};
  }
  return {Code::kUnavailable, reasons::kDraining,
          "node " + node() + " is being drained by its administrator and takes no new transfers",
          "use another node, or wait until `onecopy node undrain` has been run on node " + node()};
}

Memory* Context::FindMemory(const std::string& kind) const {
  for (Memory* memory : memories) {
    if (memory->kind() == kind) return memory;
  }
  return nullptr;
}

Link* Context::FindLink(const std::string& name) const {
  for (Link* link : links) {
    if (link->name() == name) return link;
  }
  return nullptr;
}

Store* Context::FindStore(bool direct) const {
  for (Store* store : stores) {
    if (store->IsDirect() == direct) return store;
  }
  return nullptr;
}

void Context::EndLeases(const RegionRef& region) const {
  for (Link* link : links) link->EndLeases(region);
}

Copier* Context::CopierFor(const Place& from, const Place& to) const {
  if (files.Copies(from, to)) return &files;
  if (direct_files.Copies(from, to)) return &direct_files;
  for (Memory* memory : memories) {
    if (memory->Copies(from, to)) return memory;
  }
  return nullptr;
}

}  // namespace onecopy::engine
