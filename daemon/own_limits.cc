#include "daemon/own_limits.h"

#include <linux/capability.h>
#include <sys/resource.h>

#include <fstream>
#include <string>

#include "daemon/log/log.h"
#include "transport/core/size.h"

namespace onecopy {
namespace {

// Each client, buffer and lane has one.
constexpr rlim_t kEnoughDescriptors = 4096;

// With it the limit on locked memory means nothing.
bool MayLockAnything() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "CapEff:" || !(status >> word)) continue;
    return (std::stoull(word, nullptr, 16) >> CAP_IPC_LOCK & 1) != 0;
  }
  return false;
}

}  // namespace

void TellOwnLimits(uint64_t slot_bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < slot_bytes &&
      !MayLockAnything()) {
    log::Warning(
        "little memory may be locked",
        {{"limit", FormatBytes(limit.rlim_cur)},
         {"staging_slots", FormatBytes(slot_bytes)},
         {"so", "staging slots stay pageable, and RDMA devices register no more than that"},
         {"remedy", "LimitMEMLOCK=infinity in the service's unit, or ulimit -l unlimited"}});
  }
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < kEnoughDescriptors) {
    log::Warning("few files may be open",
                 {{"limit", std::to_string(limit.rlim_cur)},
                  {"so", "there is room for few clients, buffers and lanes"},
                  {"remedy", "LimitNOFILE= in the service's unit, or ulimit -n"}});
  }
}

}  // namespace onecopy
