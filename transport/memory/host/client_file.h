// A memory file that a client has passed: checked, mapped, and read where it has no memory.
#pragma once

#include <memory>

#include "onecopy/result.h"
#include "transport/core/contracts/backing.h"
#include "transport/core/contracts/import_request.h"
#include "transport/memory/host/promises.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::host {

// INVALID_ARGUMENT (BAD_HANDLE) unless the request's descriptor is a memory file (memfd, POSIX
// shared memory) that may be written; OUT_OF_RANGE where the piece is not inside it. Asks nothing
// of a file that is something else.
Status CheckMemoryFile(const ImportRequest& request);

// Whether it is sealed so. One that is not may be cut short at any time: touching what is then
// missing faults, which os::FaultGuard contains.
bool CannotShrink(int fd);

class ClientFile final : public Backing {
 public:
  // `request` has passed CheckMemoryFile. RESOURCE_EXHAUSTED (NO_MEMORY) where the file has less
  // memory than the piece has bytes, and the machine cannot promise the rest. Huge pages are not
  // promised: they come from a pool of their own, or they fault.
  static Result<std::unique_ptr<ClientFile>> Open(const ImportRequest& request, Promises& promises);

  int fd() const { return fd_.get(); }
  // For another process that maps the piece; see Region::Share.
  Result<ImportRequest> Share(uint64_t bytes) const;
  // What mappings of it are measured in.
  uint64_t page_bytes() const { return page_bytes_; }

  bool IsFull() const override;
  bool HasHoles(uint64_t offset, uint64_t bytes) const override;
  Status Read(uint64_t offset, std::byte* to, uint64_t bytes) const override;
  Status Cover() override;

 private:
  ClientFile(os::UniqueFd fd, uint64_t offset, uint64_t page_bytes, bool huge)
      : fd_(std::move(fd)), offset_(offset), page_bytes_(page_bytes), huge_(huge) {}

  const os::UniqueFd fd_;
  const uint64_t offset_;  // of the piece
  const uint64_t page_bytes_;
  const bool huge_;
  std::unique_ptr<Promise> promise_;  // null for huge pages
};

}  // namespace onecopy::host
