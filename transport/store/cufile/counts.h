// Counters that show which way bytes went: of the library, else of the kernel's module.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "transport/shim/cufile.h"

namespace onecopy::cufile {

inline constexpr const char* kNvidiaFsStats = "/proc/driver/nvidia-fs/stats";

// Any thread; does not block for longer than reading a file of the kernel's takes.
class Counts {
 public:
  explicit Counts(std::shared_ptr<const shim::CuFileApi> api,
                  std::string nvidia_fs_stats = kNvidiaFsStats)
      : api_(std::move(api)), nvidia_fs_stats_(std::move(nvidia_fs_stats)) {}

  // Of that GPU by this process; where the library does not count, of all of them by nvidia-fs.
  // Nothing without counters.
  std::optional<shim::CuFileCounts> Read(const std::string& gpu_uuid) const;

 private:
  const std::shared_ptr<const shim::CuFileApi> api_;
  const std::string nvidia_fs_stats_;
};

// What a difference shows of so many operations: empty where all of them went directly, else how
// they went instead, in words. `others`: of operations beside them, nothing is known.
std::string WhyNotDirect(const shim::CuFileCounts& before, const shim::CuFileCounts& after,
                         uint64_t operations);

}  // namespace onecopy::cufile
