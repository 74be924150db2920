#include "transport/store/cufile/counts.h"

#include <fstream>
#include <sstream>

namespace onecopy::cufile {

std::optional<shim::CuFileCounts> Counts::Read(const std::string& gpu_uuid) const {
  if (api_->counts()) return shim::ReadCuFileCounts(*api_, gpu_uuid);
  const std::ifstream file(nvidia_fs_stats_);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return shim::ParseNvidiaFsStats(text.str());
}

std::string WhyNotDirect(const shim::CuFileCounts& before, const shim::CuFileCounts& after,
                         uint64_t operations) {
  const auto say = [](uint64_t count, const char* how) {
    return "libcufile counted " + std::to_string(count) + " operations " + how;
  };
  if (after.posix > before.posix) return say(after.posix - before.posix, "through host memory");
  if (after.bounced > before.bounced) {
    return say(after.bounced - before.bounced, "through a buffer on a GPU");
  }
  const uint64_t direct = after.direct - before.direct;
  if (direct < operations) {
    return std::to_string(operations) + " operations were asked for, and " +
           std::to_string(direct) + " counted as direct";
  }
  return {};
}

}  // namespace onecopy::cufile
