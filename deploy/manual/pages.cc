#include "deploy/manual/pages.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/cli/program.h"
#include "daemon/command_line.h"
#include "daemon/schema.h"
#include "deploy/manual/completion.h"
#include "deploy/manual/config_page.h"
#include "deploy/manual/man_page.h"
#include "deploy/manual/version.h"
#ifdef ONECOPY_WITH_BENCH
#include "bench/program.h"
#endif

namespace onecopy::manual {
namespace {

namespace fs = std::filesystem;

struct Program {
  std::function<void(const std::function<void(const CLI::App&)>&)> definition;
  int section;
};

const std::vector<Program>& Programs() {
  static const std::vector<Program> programs = {
      {cli::WithDefinition, 1},
#ifdef ONECOPY_WITH_BENCH
      {bench::WithDefinition, 1},
#endif
      {WithDaemonDefinition, 8},
  };
  return programs;
}

constexpr char kConfigPage[] = "onecopy.toml(5)";

void Write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write " + file.string());
}

// All pages but `own`.
std::vector<std::string> Others(std::vector<std::string> pages, const std::string& own) {
  pages.erase(std::remove(pages.begin(), pages.end(), own), pages.end());
  return pages;
}

void WriteCompletions(const fs::path& folder, const Command& program) {
  Write(folder / "bash" / program.name, BashCompletion(program));
  Write(folder / "zsh" / ("_" + program.name), ZshCompletion(program));
  Write(folder / "fish" / (program.name + ".fish"), FishCompletion(program));
}

}  // namespace

void WriteAll(const fs::path& folder) {
  const std::string version = "onecopy " ONECOPY_VERSION;
  std::vector<Command> commands;
  std::vector<std::string> pages;
  for (const Program& program : Programs()) {
    program.definition([&](const CLI::App& app) { commands.push_back(Describe(app)); });
    pages.push_back(commands.back().name + "(" + std::to_string(program.section) + ")");
  }
  pages.emplace_back(kConfigPage);
  for (size_t i = 0; i < commands.size(); ++i) {
    const int section = Programs()[i].section;
    const std::string number = std::to_string(section);
    Write(folder / ("man" + number) / (commands[i].name + "." + number),
          PrintManPage(commands[i], {section, version, Others(pages, pages[i])}));
    WriteCompletions(folder, commands[i]);
  }
  Write(folder / "man5" / "onecopy.toml.5",
        PrintConfigPage(SchemaOf(AllBackends()), {5, version, Others(pages, kConfigPage)}));
}

}  // namespace onecopy::manual
