// The ceiling of reads from files.
#pragma once

#include <memory>
#include <string>

#include "bench/measure/mover.h"
#include "transport/os/mapping.h"
#include "transport/os/unique_fd.h"

namespace onecopy::bench {

// Reads a file of its own into resident memory, past the page cache, in calls of `call_bytes` (a
// multiple of 4096) one after the other. The file goes with the object.
class PlainFile final : public Mover {
 public:
  // RESOURCE_EXHAUSTED (NO_SPACE) where the file system has no room, FAILED_PRECONDITION where it
  // cannot be read past the page cache.
  static Result<std::unique_ptr<PlainFile>> Create(const std::string& file, uint64_t bytes,
                                                   uint64_t call_bytes);
  ~PlainFile() override;

  const std::string& file() const { return file_; }

  Status Fill(uint64_t seed) override;
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override;

 private:
  PlainFile(std::string file, uint64_t call_bytes)
      : file_(std::move(file)), call_bytes_(call_bytes) {}

  const std::string file_;
  const uint64_t call_bytes_;
  os::UniqueFd fd_;
  os::Mapping memory_;
};

}  // namespace onecopy::bench
