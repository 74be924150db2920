// One end of a copy, as people type it:
//   node:name          a buffer on a node            name, :name      a buffer here
//   node:/path         a file on a node              /path, ./path    a file here
//   -                  standard input or output
// Each but the last may end in @OFFSET or @OFFSET+LENGTH, where both look like sizes ("@4096",
// "@1GiB+64MiB"); any other @ belongs to a file's name. A file whose name ends like a range is
// meant by adding one: "./odd@4096@0".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "onecopy/result.h"
#include "onecopy/transfer.h"

namespace onecopy::cli {

struct ParsedEndpoint {
  enum class Kind { kBuffer, kFile, kRemoteFile, kStream };

  Kind kind = Kind::kBuffer;
  std::string typed;  // all of it
  std::string node;   // kBuffer (may be empty: here), kRemoteFile
  std::string name;   // kBuffer
  std::string path;   // kFile, kRemoteFile
  std::optional<uint64_t> offset_bytes;
  std::optional<uint64_t> bytes;
  bool bare = false;  // a word without colon, which may have been meant as a file here

  // kBuffer, kRemoteFile
  Endpoint ToEndpoint() const { return {node, name, offset_bytes, bytes, path}; }
};

// INVALID_ARGUMENT (BAD_ENDPOINT, BAD_NAME, BAD_SIZE) or OUT_OF_RANGE (RANGE_OUT_OF_BUFFER) with
// what is wrong and how it should be written. Looks at nothing but the text.
Result<ParsedEndpoint> ParseEndpoint(std::string_view text);

}  // namespace onecopy::cli
