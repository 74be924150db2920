#include "transport/topology/distance.h"

#include <algorithm>
#include <vector>

namespace onecopy {
namespace {

// From the object itself to the machine.
std::vector<hwloc_obj*> Ancestors(hwloc_obj* object) {
  std::vector<hwloc_obj*> chain;
  for (; object != nullptr; object = object->parent) chain.push_back(object);
  return chain;
}

bool IsPciBridge(const hwloc_obj* object) {
  return object->type == HWLOC_OBJ_BRIDGE &&
         object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
}

bool IsHostBridge(const hwloc_obj* object) {
  return object->type == HWLOC_OBJ_BRIDGE &&
         object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
}

}  // namespace

int32_t NumaNodeOf(const hwloc_obj* object) {
  if (object == nullptr || object->nodeset == nullptr) return -1;
  if (hwloc_bitmap_weight(object->nodeset) != 1) return -1;
  return hwloc_bitmap_first(object->nodeset);
}

Distance DistanceBetween(hwloc_topology_t topology, hwloc_obj* one, hwloc_obj* other) {
  if (one == nullptr || other == nullptr) return Distance::kUnknown;
  if (one == other) return Distance::kSameSwitch;  // two devices of one PCI function
  const std::vector<hwloc_obj*> left = Ancestors(one);
  const std::vector<hwloc_obj*> right = Ancestors(other);
  const auto meeting = std::find_first_of(left.begin(), left.end(), right.begin(), right.end());
  if (meeting == left.end()) return Distance::kUnknown;
  if (IsPciBridge(*meeting)) {
    // A switch is one bridge up, towards the processor, and one down for each device: with no more
    // than that last one on either side, the two are below one switch.
    const auto between = [&](const std::vector<hwloc_obj*>& chain) {
      return std::count_if(chain.begin(), std::find(chain.begin(), chain.end(), *meeting),
                           IsPciBridge);
    };
    return between(left) <= 1 && between(right) <= 1 ? Distance::kSameSwitch : Distance::kSwitches;
  }
  if (IsHostBridge(*meeting)) return Distance::kHostBridge;
  const int32_t left_node = NumaNodeOf(hwloc_get_non_io_ancestor_obj(topology, one));
  const int32_t right_node = NumaNodeOf(hwloc_get_non_io_ancestor_obj(topology, other));
  if (left_node < 0 || right_node < 0) return Distance::kUnknown;
  return left_node == right_node ? Distance::kNumaNode : Distance::kSystem;
}

}  // namespace onecopy
