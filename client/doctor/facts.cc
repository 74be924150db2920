#include "client/doctor/facts.h"

#include <algorithm>

namespace onecopy::doctor {

bool Port::HasRoceV2() const {
  return std::any_of(gids.begin(), gids.end(),
                     [](const Gid& gid) { return gid.type == "RoCE v2"; });
}

bool Facts::HasHardwareNic() const {
  return std::any_of(nics.begin(), nics.end(), [](const Nic& nic) { return !nic.emulated; });
}

bool Facts::HasNvidiaGpu() const {
  return std::any_of(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return gpu.nvidia; });
}

}  // namespace onecopy::doctor
