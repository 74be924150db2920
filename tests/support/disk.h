// Disks that a test makes: block devices over a file, and file systems on them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transport/os/base/unique_fd.h"

namespace onecopy::testing {

// A loop device. One thread at a time, as for all here.
class BlockDevice {
 public:
  // Over a new file in `folder`. Null, and why, where this process may not, or there is no driver.
  static std::unique_ptr<BlockDevice> Make(const std::string& folder, uint64_t bytes,
                                           std::string& why);
  const std::string& path() const { return path_; }

 private:
  BlockDevice(std::string path, os::UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  os::UniqueFd fd_;  // the device goes with its last user
};

// A file system of its own, seen by this thread and by what it starts from then on. Goes with the
// object.
class Disk {
 public:
  // `kind`: "xfs", "ext4". Null, and why, where it cannot be made.
  static std::unique_ptr<Disk> Make(const std::string& kind, const std::string& folder,
                                    uint64_t bytes, std::string& why);
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  const std::string& path() const { return path_; }
  const std::string& device() const { return device_->path(); }
  // From here until Thaw, whoever writes waits, as for a server that has gone.
  bool Freeze();
  bool Thaw();

 private:
  Disk(std::string path, std::unique_ptr<BlockDevice> device)
      : path_(std::move(path)), device_(std::move(device)) {}

  std::string path_;
  std::unique_ptr<BlockDevice> device_;
  bool frozen_ = false;
};

}  // namespace onecopy::testing
