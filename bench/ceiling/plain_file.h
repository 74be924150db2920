// The ceiling of reads from files.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bench/measure/mover.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::bench {

// Reads a file of its own past the page cache, in calls of `call_bytes` (a multiple of 4096) one
// after the other, into one buffer again and again, in
// a huge page where there are such. To verify, it reads once more and looks at each
// call. The file goes with the object.
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
  PlainFile(std::string file, uint64_t bytes, uint64_t call_bytes)
      : file_(std::move(file)), bytes_(bytes), call_bytes_(call_bytes) {}
  // Calls `use` for every piece of a call's size or less: where it begins and how long it is.
  Status ForCalls(const std::function<Status(uint64_t at, uint64_t bytes)>& use) const;
  Status Read(uint64_t at, uint64_t bytes) const;

  const std::string file_;
  const uint64_t bytes_;
  const uint64_t call_bytes_;
  os::UniqueFd fd_;
  os::Mapping payload_;
  os::Mapping memory_;
  std::byte* buffer_ = nullptr;  // in it, of a call's size
};

}  // namespace onecopy::bench
