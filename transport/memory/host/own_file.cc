#include "transport/memory/host/own_file.h"

#include <fcntl.h>

#include <cerrno>

#include "transport/os/base/error.h"

namespace onecopy::host {

Result<ImportRequest> OwnFile::Share() {
  os::UniqueFd copy = fd_.Duplicate();
  if (!copy) return os::ErrnoStatus(errno, "duplicating a memory file");
  shared_ = true;
  ImportRequest shared;
  shared.form = "memfd";
  shared.bytes = bytes_;
  shared.fd = copy.Release();
  return shared;
}

void OwnFile::TakeBack() {
  if (shared_ && !left_) {
    // Cannot fail on a memory file; where it did, the memory would go with the last mapping of it.
    (void)::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      static_cast<off_t>(bytes_));
  }
  fd_.Reset();
}

}  // namespace onecopy::host
