// Commands as other users than the one that runs the tests.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/support/node.h"

namespace onecopy::testing {

// Neither is root, nor whom the daemons run as.
inline constexpr uid_t kOwner = 65533;
inline constexpr uid_t kOther = 65534;

// In the body of a test case.
#define REQUIRE_ROOT() \
  if (::geteuid() != 0) ONECOPY_SKIP("only root can act as two other users")

// A node whose sockets other users can reach: its run directory's parents are open.
void OpenTo(Node& node);

// onecopy --json ARGUMENTS, as that user.
CommandResult RunAs(uid_t uid, const Node& node, std::vector<std::string> arguments,
                    const std::string& input = {});
// The same, which must succeed: its JSON document. Throws with what it said otherwise.
Json CommandAs(uid_t uid, const Node& node, const std::vector<std::string>& arguments,
               const std::string& input = {});

}  // namespace onecopy::testing
