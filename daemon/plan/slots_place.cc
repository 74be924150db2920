#include "daemon/plan/slots_place.h"

namespace onecopy::plan {

SlotsPlace PlaceSlots(const NodeCapability& node, const MemoryCapability& memory,
                      const DrivePlace& drive) {
  const Topology& topology = node.topology;
  const int32_t gpu =
      memory.address.empty() || topology.virtual_machine ? -1 : topology.NumaNodeOf(memory.address);
  // A drive that is near to one of several says that there are several.
  const bool several =
      drive.numa_node >= 0 || (!topology.virtual_machine && topology.NumaNodes() > 1);
  SlotsPlace place;
  if (!several || (gpu < 0 && drive.numa_node < 0)) return place;
  place.numa_node = gpu < 0 ? drive.numa_node : gpu;
  const std::string where = "slots on NUMA node " + std::to_string(place.numa_node) + ", near ";
  const std::string drive_words = drive.words.empty() ? "unknown" : drive.words;
  if (gpu < 0) {
    place.why = where + "the drive: " + drive_words + "; the place of " +
                (memory.device.empty() ? memory.kind : memory.device) + " is unknown";
  } else if (gpu == drive.numa_node) {
    place.why = where + memory.device + " and the drive: " + drive_words;
  } else if (drive.numa_node >= 0) {
    place.why = where + memory.device + ", which is equally far from the drive: " + drive_words;
  } else {
    place.why = where + memory.device + "; drive: " + drive_words;
  }
  return place;
}

}  // namespace onecopy::plan
