// The memory file behind a buffer of the daemon's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "onecopy/result.h"
#include "transport/core/contracts/import_request.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::host {

// One thread at a time. Nobody else has the file until it is shared.
class OwnFile {
 public:
  // `fd` is sealed against any change of its size. `shared`: another process may have it already.
  OwnFile(os::UniqueFd fd, uint64_t bytes, bool shared)
      : fd_(std::move(fd)), bytes_(bytes), shared_(shared) {}

  // See Region::Share.
  Result<ImportRequest> Share();

  // At the end of the buffer: gives the memory back to the machine, also where a process that the
  // file was shared with still maps it. That one sees zeroes from then on, and what it touches is
  // memory of its own account; it does not fault.
  void TakeBack();
  // The memory survives this process: TakeBack then leaves its bytes as they are.
  void Leave() { left_ = true; }

 private:
  os::UniqueFd fd_;
  const uint64_t bytes_;
  std::atomic<bool> shared_;
  bool left_ = false;
};

}  // namespace onecopy::host
