// The index of a model in many safetensors files.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onecopy/result.h"

namespace onecopy::formats {

// Of each tensor the name of its file, in the order of the text: the object of texts "weight_map"
// of an object. All else in it is passed over; of several of one name the last one counts, as with
// the tools that write and read such indexes. Takes time and memory in proportion to the text, of
// at most kMaxSafetensorsHeaderBytes and kMaxTensors.
//
// INVALID_ARGUMENT (BAD_FORMAT) for what is something else, and for a file that lies neither beside
// the index nor in a folder there. `name`: of the index, for messages.
Result<std::vector<std::pair<std::string, std::string>>> ParseSafetensorsIndex(
    std::string_view text, const std::string& name);

}  // namespace onecopy::formats
