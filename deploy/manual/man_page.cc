#include "deploy/manual/man_page.h"

#include "deploy/manual/footer.h"
#include "deploy/manual/roff.h"

namespace onecopy::manual {
namespace {

// "NAME", "[FILE]..."
std::string ArgumentText(const Argument& argument) {
  std::string text = argument.required ? argument.name : "[" + argument.name + "]";
  // "SRC... DST" says itself which of them is one of several.
  if (argument.several && argument.name.find("...") == std::string::npos) text += "...";
  return text;
}

// "onecopy buffer create [OPTIONS] NAME"
std::string Synopsis(const Command& command) {
  std::string text = command.path;
  if (!command.options.empty()) text += " [OPTIONS]";
  if (!command.commands.empty()) text += command.needs_command ? " COMMAND" : " [COMMAND]";
  for (const Argument& argument : command.arguments) text += " " + ArgumentText(argument);
  return text;
}

std::string Names(const Option& option) {
  std::string names;
  for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + Bold(name);
  if (option.value_optional) return names + "[=" + Italic(option.value) + "]";
  return option.value.empty() ? names : names + " " + Italic(option.value);
}

std::string Options(const Command& command) {
  std::string page;
  for (const Option& option : command.options) {
    std::string text = Sentence(option.text);
    if (option.required) text += " Required.";
    page += Item(Names(option), text);
  }
  return page;
}

std::string Arguments(const Command& command) {
  std::string page;
  for (const Argument& argument : command.arguments) {
    page += Item(Italic(ArgumentText(argument)), argument.text);
  }
  return page;
}

std::string Commands(const Command& command) {
  std::string page;
  for (const Command& below : command.commands) {
    page += SmallHeading(Synopsis(below)) + Escape(Sentence(below.text)) + "\n";
    page += Arguments(below) + Options(below);
    const Footer footer = SplitFooter(below.footer);
    if (!footer.notes.empty()) page += Verbatim(footer.notes);
    if (!footer.exit_status.empty()) {
      page += ".PP\nExit status: " + Escape(Sentence(footer.exit_status)) + "\n";
    }
    if (!footer.examples.empty()) page += Verbatim(footer.examples);
    page += Commands(below);
  }
  return page;
}

}  // namespace

std::string SeeAlso(const std::vector<std::string>& pages) {
  std::string text;
  for (const std::string& page : pages) {
    const size_t bracket = page.find('(');
    text +=
        (text.empty() ? "" : ",\n") + Bold(page.substr(0, bracket)) + Escape(page.substr(bracket));
  }
  return Heading("SEE ALSO") + text + "\n";
}

std::string PrintManPage(const Command& program, const ManPage& page) {
  const Footer footer = SplitFooter(program.footer);
  std::string text = Head({program.name, page.section, program.text, page.version});
  text += Heading("SYNOPSIS") + Escape(Synopsis(program)) + "\n";
  text += Heading("DESCRIPTION") + Escape(Sentence(program.text)) + "\n";
  if (!footer.notes.empty()) text += Verbatim(footer.notes);
  text += Heading("OPTIONS") + Arguments(program) + Options(program);
  if (!program.commands.empty()) text += Heading("COMMANDS") + Commands(program);
  if (!footer.exit_status.empty()) {
    text += Heading("EXIT STATUS") + Escape(Sentence(footer.exit_status)) + "\n";
  }
  if (!footer.examples.empty()) text += Heading("EXAMPLES") + Verbatim(footer.examples);
  return text + SeeAlso(page.see_also);
}

}  // namespace onecopy::manual
