#include "deploy/manual/command.h"

#include <algorithm>

#include "client/cli/program.h"
#include "deploy/manual/footer.h"
#include "tests/support/catch.h"
#include "tests/unit/manual/small_program.h"

using onecopy::manual::All;
using onecopy::manual::Command;
using onecopy::manual::Kind;
using onecopy::testing::SmallProgram;

TEST_CASE("a program is described with its commands, arguments and options") {
  const Command program = SmallProgram();
  CHECK(program.needs_command);
  REQUIRE(program.commands.size() == 2);  // without the hidden one
  const Command& go = program.commands[0];
  CHECK(go.path == "mv-things go");
  CHECK_FALSE(go.needs_command);
  REQUIRE(go.arguments.size() == 2);
  CHECK(go.arguments[0].required);
  CHECK_FALSE(go.arguments[0].several);
  CHECK(go.arguments[0].kind == Kind::kFile);
  CHECK(go.arguments[1].several);
  REQUIRE(go.options.size() == 4);
  CHECK(go.options[0].kind == Kind::kFolder);
  CHECK(go.options[0].required);
  CHECK(go.options[1].value == "N");
  CHECK(go.options[1].text == "How often; from 1 to 64");
  CHECK(go.options[2].several);
  CHECK(go.options[3].value_optional);
}

TEST_CASE("options that may be typed after a command below are inherited, the version is not") {
  const Command program = SmallProgram();
  const Command& list = program.commands[1].commands[0];
  CHECK(list.path == "mv-things thing ls");
  REQUIRE(list.inherited.size() == 2);
  CHECK(list.inherited[0].names == std::vector<std::string>{"--help", "-h"});
  CHECK(list.inherited[1].names == std::vector<std::string>{"--quiet", "-q"});
}

TEST_CASE("a command without a footer has not that of the one above") {
  const Command program = SmallProgram();
  CHECK(program.commands[0].footer == "Example: mv-things go a --into b");
  CHECK(program.commands[1].footer.empty());
}

TEST_CASE("a footer is split into notes, examples and the exit status") {
  const auto parts = onecopy::manual::SplitFooter(SmallProgram().footer);
  CHECK(parts.notes == "A thing is what has a name.");
  CHECK(parts.examples == "  mv-things go a b");
  CHECK(parts.exit_status == "0 done, 1 not.");
  const auto line = onecopy::manual::SplitFooter("Example: do it\nThen leave.");
  CHECK(line.examples == "  do it");
  CHECK(line.notes == "Then leave.");
}

TEST_CASE("every command of onecopy is found, with an explanation of each option") {
  onecopy::cli::WithDefinition([](const CLI::App& app) {
    const Command program = onecopy::manual::Describe(app);
    const auto all = All(program);
    CHECK(all.size() > 30);
    const bool copies = std::any_of(all.begin(), all.end(), [](const Command* command) {
      return command->path == "onecopy buffer create";
    });
    CHECK(copies);
    for (const Command* command : all) {
      INFO(command->path);
      CHECK_FALSE(command->text.empty());
      for (const auto& option : command->options) CHECK_FALSE(option.text.empty());
    }
  });
}
