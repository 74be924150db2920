#include "deploy/manual/completion.h"

#include <algorithm>

namespace onecopy::manual {

std::string FunctionName(const std::string& path) {
  std::string name = "_";
  for (const char c : path) name += c == ' ' || c == '-' ? '_' : c;
  return name;
}

bool TakesFiles(const Command& command) {
  return std::any_of(command.arguments.begin(), command.arguments.end(),
                     [](const Argument& argument) { return argument.kind != Kind::kText; });
}

std::vector<Option> OptionsOf(const Command& command) {
  std::vector<Option> options = command.options;
  options.insert(options.end(), command.inherited.begin(), command.inherited.end());
  return options;
}

}  // namespace onecopy::manual
