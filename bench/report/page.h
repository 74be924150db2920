// A run of the bench as one HTML page that needs nothing else: no script, no other file.
#pragma once

#include <string>
#include <vector>

#include "bench/measure/row_json.h"

namespace onecopy::bench {

std::string PageOf(const std::vector<RecordedRow>& rows);

}  // namespace onecopy::bench
