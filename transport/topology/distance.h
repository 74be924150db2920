// Inside the topology: hwloc's tree as distances.
#pragma once

#include <hwloc.h>

#include "onecopy/topology.h"

namespace onecopy {

// Between two PCI devices of one loaded topology; unknown where one is null.
Distance DistanceBetween(hwloc_topology_t topology, hwloc_obj* one, hwloc_obj* other);

// The one NUMA node near to an object that is not I/O; -1 where there are several.
int32_t NumaNodeOf(const hwloc_obj* object);

}  // namespace onecopy
