// `onecopy cp` to several destinations.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/cli/deadline.h"
#include "client/cli/move_options.h"
#include "client/cli/session.h"
#include "onecopy/file_copy.h"

namespace onecopy::cli {

// The names in one destination of the form {a,b,c}:NAME, with or without a range: "a:NAME" and so
// on. Nothing for any other destination. INVALID_ARGUMENT (BAD_ENDPOINT) for a list that does not
// end, or in which a name is missing.
Result<std::optional<std::vector<std::string>>> NodesInBraces(const std::string& destination);

struct CopiesToSeveral {
  MoveOptions move;                       // its source; and the policy
  std::vector<std::string> destinations;  // as typed, one each
  std::string create;                     // the memory of buffers to be made; empty: none are
  bool keep_failed = false;
  std::string message;
};

// A file, which is read once, or a buffer, whose payload goes from destination to destination. A
// receipt for each.
Status CopyToSeveral(Session& session, const CopiesToSeveral& copies, const Deadline& deadline,
                     FileCopyOptions file_options);

}  // namespace onecopy::cli
