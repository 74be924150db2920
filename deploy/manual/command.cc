#include "deploy/manual/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

namespace onecopy::manual {
namespace {

constexpr int kSeveral = 2;

bool Has(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

Kind KindOf(const std::string& name) {
  if (Has(name, "DIR")) return Kind::kFolder;
  for (const char* file : {"FILE", "PATH", "SRC", "DST"}) {
    if (Has(name, file)) return Kind::kFile;
  }
  return Kind::kText;
}

// CLI11 writes a checked number as "UINT:UINT in [1 - 64]": the name and the bounds of it.
std::pair<std::string, std::string> SplitTypeName(const std::string& type) {
  const size_t bounds = type.find(" in [");
  const std::string name = bounds == std::string::npos ? type : type.substr(0, type.find(':'));
  const std::string shown = name == "UINT" || name == "INT" ? "N" : name;
  if (bounds == std::string::npos) return {shown, ""};
  std::string range = type.substr(bounds + 5);
  range.resize(range.find(']'));
  const size_t dash = range.find(" - ");
  return {shown, "from " + range.substr(0, dash) + " to " + range.substr(dash + 3)};
}

Argument ArgumentOf(const CLI::Option& option) {
  Argument argument;
  argument.name = option.get_name(true);
  argument.text = option.get_description();
  argument.kind = KindOf(argument.name);
  argument.required = option.get_required();
  argument.several = option.get_items_expected_max() >= kSeveral;
  return argument;
}

Option OptionOf(const CLI::Option& from) {
  Option option;
  for (const std::string& name : from.get_lnames()) option.names.push_back("--" + name);
  for (const std::string& name : from.get_snames()) option.names.push_back("-" + name);
  option.text = from.get_description();
  option.required = from.get_required();
  if (from.get_items_expected_max() == 0) {  // a flag, which may have another value than "true"
    const bool is_long = !from.get_lnames().empty();
    const std::string name = is_long ? from.get_lnames().front() : from.get_snames().front();
    const std::string meant = from.get_flag_value(name, "");
    option.value_optional = meant != "true";
    if (option.value_optional) option.value = "VALUE";
    return option;
  }
  const auto [name, bounds] = SplitTypeName(from.get_type_name());
  option.value = name;
  if (!bounds.empty()) option.text += "; " + bounds;
  option.kind = KindOf(option.value);
  option.several = from.get_items_expected_max() >= kSeveral;
  return option;
}

Command DescribeBelow(const CLI::App& app, const std::string& above,
                      const std::vector<Option>& inherited) {
  const CLI::App* parent = app.get_parent();
  Command command;
  command.name = app.get_name();
  command.path = above.empty() ? command.name : above + " " + command.name;
  command.text = app.get_description();
  // CLI11 gives a command without a footer that of the command above.
  if (parent == nullptr || app.get_footer() != parent->get_footer()) {
    command.footer = app.get_footer();
  }
  command.needs_command = app.get_require_subcommand_min() > 0;
  command.inherited = inherited;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    if (option->get_positional()) {
      command.arguments.push_back(ArgumentOf(*option));
    } else if (above.empty() || option != app.get_help_ptr()) {
      command.options.push_back(OptionOf(*option));  // --help is told of once
    }
  }
  std::vector<Option> passed = inherited;
  for (const Option& option : command.options) {
    const bool help = option.names.front() == "--help";
    const bool version = option.names.front() == "--version";
    if ((app.get_fallthrough() && !version) || help) passed.push_back(option);
  }
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (below->get_group().empty() || below->get_name().empty()) continue;
    command.commands.push_back(DescribeBelow(*below, command.path, passed));
  }
  return command;
}

void AddAll(const Command& command, std::vector<const Command*>* all) {
  all->push_back(&command);
  for (const Command& below : command.commands) AddAll(below, all);
}

}  // namespace

Command Describe(const CLI::App& program) { return DescribeBelow(program, "", {}); }

std::vector<const Command*> All(const Command& command) {
  std::vector<const Command*> all;
  AddAll(command, &all);
  return all;
}

}  // namespace onecopy::manual
