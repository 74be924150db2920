// `cp --tensors`: a safetensors file whose payload is moved, and where each tensor is then.
#pragma once

#include <ostream>

#include "client/cli/move_options.h"
#include "client/cli/output/document.h"
#include "client/formats/safetensors.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::cli {

struct TensorFile {
  os::UniqueFd fd;  // of what the head was read of, whatever gets its name meanwhile
  formats::SafetensorsHeader header;
};

// Opens the source, and makes the payload its range. INVALID_ARGUMENT (BAD_ARGUMENT) unless a whole
// file goes to a buffer; fails like formats::ReadSafetensors.
Result<TensorFile> OpenTensors(MoveEnds* ends);

// A list: name, dtype, shape, bytes, and the endpoint where it lies in the destination. `own_node`:
// where a destination without node is.
Json TensorsToJson(const formats::SafetensorsHeader& header, const ParsedEndpoint& destination,
                   const std::string& own_node);
// The same for people, a line for each.
void PrintTensors(std::ostream& out, const formats::SafetensorsHeader& header,
                  const ParsedEndpoint& destination, const std::string& own_node);

}  // namespace onecopy::cli
