// What a daemon knows by itself to be wrong with its node, in the form of `onecopy doctor`.
#pragma once

#include <string>
#include <vector>

#include "daemon/status/seen.h"

namespace onecopy::status {

// kBlocks: some bytes cannot take their path, or reach no node. kSlows: they take longer. kNote:
// worth knowing.
enum class Severity { kBlocks, kSlows, kNote };

// "blocks", "slows", "note".
std::string SeverityName(Severity severity);

struct Finding {
  std::string code;
  Severity severity = Severity::kNote;
  std::string evidence;
  std::string remedy;
};

// What blocks first. A function of what it is given. Names no file, buffer or user.
std::vector<Finding> FindingsOf(const Seen& seen);

}  // namespace onecopy::status
