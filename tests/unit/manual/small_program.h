// A command line with one of everything.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "deploy/manual/command.h"

namespace onecopy::testing {

inline bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline manual::Command SmallProgram() {
  CLI::App program("Moves things", "mv-things");
  program.fallthrough();
  program.require_subcommand(1);
  program.footer(
      "A thing is what has a name.\n\nExamples:\n  mv-things go a b\n\nExit status: 0 done,\n1 "
      "not.");
  bool quiet = false;
  std::string text;
  std::vector<std::string> texts;
  unsigned number = 0;
  program.add_flag("--quiet,-q", quiet, "Say nothing");
  program.set_version_flag("--version", "1");
  CLI::App* go = program.add_subcommand("go", "It's the way: there");
  go->add_option("FILE", text, "What goes")->required();
  go->add_option("MORE", texts, "What else");
  go->add_option("--into", text, "Where to [a folder]")->type_name("DIR")->required();
  go->add_option("--times", number, "How often")->check(CLI::Range(1U, 64U));
  go->add_option("--also", texts, "Who else")->type_name("NAME");
  go->add_flag("--make{host}", text, "Of what");
  go->footer("Example: mv-things go a --into b");
  CLI::App* group = program.add_subcommand("thing", "Things");
  group->add_subcommand("ls", "List them");
  program.add_subcommand("secret", "Not shown")->group("");
  return manual::Describe(program);
}

}  // namespace onecopy::testing
