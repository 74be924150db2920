// The head of a safetensors file: which tensor lies where.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "onecopy/result.h"

namespace onecopy::cli {

struct TensorInFile {
  std::string name;
  std::string dtype;  // as the format has it: "BF16"
  std::vector<uint64_t> shape;
  uint64_t offset_bytes = 0;  // in the payload
  uint64_t bytes = 0;
};

struct SafetensorsHeader {
  uint64_t payload_offset = 0;  // in the file
  uint64_t payload_bytes = 0;
  std::vector<TensorInFile> tensors;  // in order of their bytes
};

inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;  // as of the format's library

// How long the head's text is, by the first 8 bytes (fewer where there are no more) of a file of so
// many bytes. INVALID_ARGUMENT (BAD_FORMAT) where that cannot be. `name`: of the file, for
// messages.
Result<uint64_t> SafetensorsHeaderBytes(std::string_view first, uint64_t file_bytes,
                                        const std::string& name);

// Of the head's text. INVALID_ARGUMENT (BAD_FORMAT) unless the tensors are the whole payload, once:
// without holes, and none shares bytes with another; and for names that are there twice, unknown
// types and fields, and sizes that do not fit.
Result<SafetensorsHeader> ParseSafetensors(std::string_view text, uint64_t file_bytes,
                                           const std::string& name);

// Of an open file.
Result<SafetensorsHeader> ReadSafetensors(int fd, const std::string& name);

}  // namespace onecopy::cli
