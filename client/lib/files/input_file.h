// A local file as the source of a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "client/lib/calls/waiter.h"
#include "onecopy/file_copy.h"
#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::client {

// Used by one thread.
class InputFile {
 public:
  // NOT_FOUND (FILE_NOT_FOUND), PERMISSION_DENIED, INVALID_ARGUMENT for a folder and as CheckPath,
  // OUT_OF_RANGE (RANGE_OUT_OF_BUFFER) for a range that does not lie inside.
  static Result<InputFile> Open(const LocalFile& file);

  const std::string& name() const { return name_; }
  // Bytes that Read will give; absent for a stream without end in sight.
  std::optional<uint64_t> bytes() const { return bytes_; }

  // For code that reads without Read: the offset of the next byte in a file that has offsets, and
  // -1 for a stream.
  int fd() const { return kind_ == Kind::kSeekable ? fd_ : -1; }
  uint64_t at() const { return at_; }
  // Of one that has offsets: Read goes on there, counted from where it began.
  void Seek(uint64_t offset) {
    at_ = at_ - read_ + offset;
    read_ = offset;
  }

  // Fills `to` with the next bytes; fewer than `bytes` only at the end. Fails like Waiter::Check,
  // and with DATA_LOSS (IO_ERROR) where a file ends before the length that it had.
  Result<uint64_t> Read(std::byte* to, uint64_t bytes, const Waiter& waiter);

 private:
  enum class Kind { kSeekable, kStream };

  InputFile(std::string name, os::UniqueFd owned, int fd);
  Status Measure(const LocalFile& file);

  std::string name_;
  os::UniqueFd owned_;
  int fd_ = -1;
  Kind kind_ = Kind::kStream;
  uint64_t at_ = 0;    // where the next byte is, kSeekable
  uint64_t read_ = 0;  // bytes given so far
  std::optional<uint64_t> bytes_;
};

}  // namespace onecopy::client
