// gdsio, NVIDIA's program to measure GPUDirect Storage.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bench/measure/mover.h"
#include "bench/tools/tool_mover.h"

namespace onecopy::bench {

struct GdsioParams {
  std::string file = {};               // in a folder that is there; what is read is there before
  uint64_t bytes = uint64_t{1} << 30;  // whole MiB of it are moved
  bool writes = false;
  int gpu = 0;  // as this process counts them
  unsigned threads = 16;
  uint64_t call_bytes = uint64_t{4} << 20;
};

// The file between drive and GPU as it does by itself (transfer type 0), once for each sample. It
// looks at nothing that it moves. NOT_FOUND (FILE_NOT_FOUND) where it is neither on $PATH nor in
// the CUDA toolkit's folder.
Result<std::unique_ptr<Mover>> MakeGdsio(const GdsioParams& params);

// The rate in a line of what it prints, which must be about GPUDirect (not its own way through the
// host), and that direction.
std::optional<ToolSaid> ReadGdsio(const std::string& line, bool writes);

}  // namespace onecopy::bench
