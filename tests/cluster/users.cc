#include "tests/cluster/users.h"

#include <filesystem>
#include <stdexcept>

namespace onecopy::testing {

void OpenTo(Node& node) {
  std::filesystem::permissions(node.folder().path(), std::filesystem::perms(0755));
}

CommandResult RunAs(uid_t uid, const Node& node, std::vector<std::string> arguments,
                    const std::string& input) {
  arguments.insert(arguments.begin(), {"--run-dir", node.run_dir(), "--json"});
  return RunCommand("onecopy", arguments, input, BecomeUser(uid));
}

Json CommandAs(uid_t uid, const Node& node, const std::vector<std::string>& arguments,
               const std::string& input) {
  const CommandResult result = RunAs(uid, node, arguments, input);
  if (result.exit_status != 0) throw std::runtime_error(result.out + result.err);
  return result.json;
}

}  // namespace onecopy::testing
