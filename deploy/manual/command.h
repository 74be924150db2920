// A command line as plain data: what manual pages and completions are made of.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace onecopy::manual {

// What an argument or an option's value names.
enum class Kind { kText, kFile, kFolder };

struct Argument {
  std::string name;  // "SRC"
  std::string text;
  Kind kind = Kind::kText;
  bool required = false;
  bool several = false;
};

struct Option {
  std::vector<std::string> names;  // "--quiet", "-q": long ones first
  std::string value;               // "SIZE"; empty: it takes none
  bool value_optional = false;     // as in --create=VALUE
  std::string text;
  Kind kind = Kind::kText;
  bool required = false;
  bool several = false;
};

struct Command {
  std::string name;
  std::string path;  // as it is typed: "onecopy buffer create"
  std::string text;
  std::string footer;
  std::vector<Argument> arguments;
  std::vector<Option> options;    // its own
  std::vector<Option> inherited;  // of the commands above it that may be typed after it, too
  std::vector<Command> commands;
  bool needs_command = false;  // one of them must be typed
};

// All of a program. Options and commands that its help hides are left out.
Command Describe(const CLI::App& program);

// The command and all below it, the command first.
std::vector<const Command*> All(const Command& command);

}  // namespace onecopy::manual
