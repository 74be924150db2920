// The head of a safetensors file: which tensor lies where. The command line and the Python package
// both read it here. It takes what the format's own library (`safetensors` 0.8) takes, within the
// budgets below, and refuses the rest.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onecopy/result.h"

namespace onecopy::formats {

// As of the format's library.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
// Budgets of our own. No array has more dimensions, or a length of 2^63 or more; no model has as
// many tensors in one file.
inline constexpr size_t kMaxDimensions = 4096;
inline constexpr size_t kMaxTensors = size_t{1} << 20;

struct TensorInFile {
  std::string name;
  std::string_view dtype;  // as the format has it: "BF16"; of a text that is never freed
  std::vector<uint64_t> shape;
  uint64_t offset_bytes = 0;  // in the payload
  uint64_t bytes = 0;
};

struct SafetensorsHeader {
  uint64_t payload_offset = 0;  // in the file
  uint64_t payload_bytes = 0;
  std::vector<TensorInFile> tensors;                          // in order of their bytes
  std::vector<std::pair<std::string, std::string>> metadata;  // in order of their names
};

// The length of the head's text, which the first 8 bytes of the file tell. `first`: these bytes, or
// fewer where the file is shorter. `name`: the file's, for messages. INVALID_ARGUMENT (BAD_FORMAT)
// where a file of `file_bytes` bytes cannot have such a head.
Result<uint64_t> SafetensorsHeaderBytes(std::string_view first, uint64_t file_bytes,
                                        const std::string& name);

// Of the head's text. Takes time in proportion to its length (times its logarithm, to sort the
// tensors), and a few times as much memory.
//
// The last one of several tensors of one name counts, fields that the format does not have are
// passed over, and `__metadata__` may be null. INVALID_ARGUMENT (BAD_FORMAT) for what is not JSON,
// or not of this form; unless the tensors are the whole payload, once, without holes and without
// sharing bytes; and for what is over a budget.
Result<SafetensorsHeader> ParseSafetensors(std::string_view text, uint64_t file_bytes,
                                           const std::string& name);

// Of an open file, wherever its descriptor stands: what the command line and the Python package
// call. INVALID_ARGUMENT: BAD_ARGUMENT for what is not a regular file, BAD_FORMAT also for a file
// that becomes shorter meanwhile.
Result<SafetensorsHeader> ReadSafetensors(int fd, const std::string& name);

struct ElementType {
  std::string_view name;  // as the format has it
  uint64_t bits;
};

// All that the format has.
std::span<const ElementType> ElementTypes();

}  // namespace onecopy::formats
