#include "client/cli/program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <utility>

#include "client/cli/commands.h"
#include "client/cli/output/escape.h"
#include "client/cli/output/report.h"
#include "client/cli/session.h"
#include "client/cli/version.h"
#include "onecopy/reasons.h"
#include "transport/core/base/exit_status.h"
#include "transport/core/base/nearest.h"

namespace onecopy::cli {
namespace {

constexpr char kDescription[] =
    "Moves GPU and host memory between machines, and proves how many copies it took.";
constexpr char kFooter[] =
    R"(An end of a copy is
  NODE:NAME, NAME        a buffer on a node, or here
  /path, ./path          a file here
  -                      standard input or output
and may end in a range: NAME@4096+64MiB

Examples:
  onecopy buffer create frame --size 1GiB --memory cuda:0
  onecopy cp ./frame.bin frame
  onecopy cp frame west:frame
  onecopy explain frame west:frame
  onecopy doctor

Exit status: 0 done, 2 wrong arguments, 3 not found, 4 not allowed, 5 no daemon or peer, 6 data
lost, 7 no acceptable path, 8 deadline exceeded, 9 resource exhausted, 10 aborted, 130 cancelled,
1 anything else.)";

int Fail(const Status& status, bool json, std::ostream& out, std::ostream& err) {
  if (json) {
    Print(out, ToJson(status));
  } else {
    PrintError(err, status);
  }
  return ExitStatusOf(status.code());
}

struct TypedCommand {
  std::string name;  // "onecopy buffer create"
  const CLI::App* app;
};

// The command whose help fits what was typed.
TypedCommand Typed(const CLI::App& program) {
  TypedCommand typed{"onecopy", &program};
  while (!typed.app->get_subcommands().empty()) {
    typed.app = typed.app->get_subcommands().front();
    typed.name += " " + typed.app->get_name();
  }
  return typed;
}

// A word where the name of a command belongs that no command has; empty: there is none.
std::string UnknownCommand(const CLI::App& program) {
  const TypedCommand typed = Typed(program);
  const bool group = !typed.app->get_subcommands([](const CLI::App*) { return true; }).empty();
  if (!group) return {};
  for (const std::string& word : program.remaining(true)) {
    if (!word.starts_with('-')) return Quote(word) + " is not a command of `" + typed.name + "`";
  }
  return {};
}

// What other programs call our commands.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kOtherNames = {{
    {"list", "ls"},
    {"copy", "cp"},
    {"remove", "rm"},
    {"delete", "rm"},
    {"del", "rm"},
    {"new", "create"},
    {"make", "create"},
    {"add", "create"},
    {"get", "show"},
    {"info", "show"},
    {"plan", "explain"},
    {"stop", "cancel"},
}};

// "did you mean `onecopy buffer ls`? ", where that is a command; else empty.
std::string MeantCommand(const CLI::App& program) {
  const TypedCommand typed = Typed(program);
  std::string wrong;
  for (const std::string& word : program.remaining(true)) {
    if (word.starts_with('-')) continue;
    wrong = word;
    break;
  }
  std::vector<std::string> names;
  for (const CLI::App* command : typed.app->get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  for (const auto& [other, ours] : kOtherNames) {
    if (wrong == other && std::find(names.begin(), names.end(), ours) != names.end()) {
      return "did you mean `" + typed.name + " " + std::string(ours) + "`? ";
    }
  }
  const std::string nearest = Nearest(wrong, names);
  return nearest.empty() ? nearest : "did you mean `" + typed.name + " " + nearest + "`? ";
}

// "did you mean --path? "; else empty.
std::string MeantOption(const CLI::App& app, const std::string& typed) {
  std::vector<std::string> names;
  for (const CLI::App* of = &app; of != nullptr; of = of->get_parent()) {
    for (const CLI::Option* option : of->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  const std::string nearest = Nearest(typed.substr(0, typed.find('=')), names);
  return nearest.empty() ? nearest : "did you mean " + nearest + "? ";
}

// What was probably meant by the words that were typed; else empty.
std::string Meant(const CLI::App& program) {
  if (!UnknownCommand(program).empty()) return MeantCommand(program);
  const std::vector<std::string> left = program.remaining(true);
  const bool option = !left.empty() && left[0].starts_with("--") && left[0] != "--";
  return option ? MeantOption(*Typed(program).app, left[0]) : "";
}

// What is wrong with the words that were typed.
std::string Explain(const CLI::App& program, const CLI::ParseError& error) {
  if (std::string unknown = UnknownCommand(program); !unknown.empty()) return unknown;
  const TypedCommand typed = Typed(program);
  const std::vector<std::string> left = program.remaining(true);
  const bool option = !left.empty() && left[0].starts_with('-') && left[0] != "-";
  const auto is = [&error](CLI::ExitCodes code) {
    return error.get_exit_code() == static_cast<int>(code);
  };
  if (is(CLI::ExitCodes::ExtrasError) && option) {
    return Quote(left[0]) + " is not an option of `" + typed.name + "`";
  }
  const std::string command = typed.app->get_name();
  const bool ends = is(CLI::ExitCodes::ExtrasError) || is(CLI::ExitCodes::RequiredError);
  if (!ends || (command != "cp" && command != "explain")) return error.what();
  return command + " takes one source and one destination" +
         (left.empty() ? "" : ", and " + Quote(left[0]) + " is one too many");
}

void Define(CLI::App& program, GlobalOptions& options, Command& chosen) {
  program.require_subcommand(1);
  program.fallthrough();
  program
      .add_option("--run-dir", options.run_dir,
                  "The daemon's run directory (else $ONECOPY_RUN_DIR, /run/onecopy, or "
                  "$XDG_RUNTIME_DIR/onecopy)")
      ->type_name("DIR");
  program.add_flag("--json", options.json, "Print one JSON document, for programs");
  program.add_flag("--quiet,-q", options.quiet, "No progress bar and no receipt");
  program.set_version_flag("--version", "onecopy " ONECOPY_VERSION, "Print the version");

  AddCp(program, chosen);
  AddExplain(program, chosen);
  AddBuffer(program, chosen);
  AddGrant(program, chosen);
  AddExport(program, chosen);
  AddTransfer(program, chosen);
  AddNode(program, chosen);
  AddProbe(program, chosen);
  AddDoctor(program, chosen);
  AddInit(program, chosen);
  AddCert(program, chosen);
  AddNixlPluginDir(program, chosen);
  AddTop(program, chosen);
  program.footer(kFooter);  // last: commands that have none of their own would take it over
}

}  // namespace

void WithDefinition(const std::function<void(const CLI::App&)>& use) {
  CLI::App program(kDescription, "onecopy");
  GlobalOptions options;
  Command chosen;
  Define(program, options, chosen);
  use(program);
}

int RunProgram(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  CLI::App program(kDescription, "onecopy");
  GlobalOptions options;
  Command chosen;
  Define(program, options, chosen);
  const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    program.parse(reversed);
  } catch (const CLI::Success& wanted) {  // --help, --version
    if (const std::string unknown = UnknownCommand(program); !unknown.empty()) {
      return Fail(Status(Code::kInvalidArgument, reasons::kBadArgument, unknown,
                         MeantCommand(program) + "see `" + Typed(program).name + " --help`"),
                  json, out, err);
    }
    program.exit(wanted, out, err);
    return 0;
  } catch (const CLI::ParseError& error) {
    return Fail(Status(Code::kInvalidArgument, reasons::kBadArgument, Explain(program, error),
                       Meant(program) + "see `" + Typed(program).name + " --help`"),
                json, out, err);
  }
  Session session(options, out, err);
  const Status status = chosen(session);
  out.flush();
  if (!status.ok()) return Fail(status, options.json, session.out(), err);
  if (!out) {
    return Fail(Status(Code::kInternal, reasons::kIo, "could not write to standard output"), false,
                out, err);
  }
  return ExitStatusOf(session.outcome());
}

Result<Client> Session::Connect() const {
  ConnectOptions connect;
  connect.run_dir = options_.run_dir;
  connect.program = "onecopy " ONECOPY_VERSION;
  return Client::Connect(connect);
}

}  // namespace onecopy::cli
