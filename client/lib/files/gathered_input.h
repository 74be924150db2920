// Several local files as one source of a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "client/lib/calls/waiter.h"
#include "client/lib/files/input_file.h"
#include "onecopy/file_copy.h"
#include "onecopy/result.h"

namespace onecopy::client {

// What an InputFile is, from the first file's place to the end of the last: what lies between files
// is zeros. Files are opened when their bytes are due. Used by one thread.
class GatheredInput {
 public:
  // INVALID_ARGUMENT (BAD_ARGUMENT) for none, for one whose length is not said, and where two
  // overlap or are not in the order of their places. The files must outlive this.
  static Result<GatheredInput> Of(std::span<const PlacedFile> files);

  // For messages: "a (4999 more files behind it)".
  std::string name() const;
  std::optional<uint64_t> bytes() const { return end_ - files_.front().offset_bytes; }

  // As InputFile::Open and Read; a failure names the file.
  Result<uint64_t> Read(std::byte* to, uint64_t bytes, const Waiter& waiter);

 private:
  explicit GatheredInput(std::span<const PlacedFile> files);

  std::span<const PlacedFile> files_;
  uint64_t end_ = 0;               // of the last
  uint64_t at_ = 0;                // where the next byte goes
  size_t next_ = 0;                // which file is due, or being read
  std::optional<InputFile> open_;  // that one
};

}  // namespace onecopy::client
