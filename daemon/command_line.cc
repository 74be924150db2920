#include "daemon/command_line.h"

#include <CLI/CLI.hpp>

#include "daemon/version.h"
#include "transport/core/exit_status.h"

namespace onecopy {
namespace {

constexpr char kName[] = "onecopyd";
constexpr char kDescription[] =
    "Moves GPU memory between machines with as few copies as really possible.";

void Define(CLI::App& app, CommandLine& line) {
  config::Overrides& flags = line.overrides;
  app.set_version_flag("--version", std::string("onecopyd ") + kVersion);
  app.footer(
      "Prints one line when it serves: ready name=NAME listen=HOST:PORT run-dir=DIR "
      "metrics=HOST:PORT\n"
      "SIGTERM lets running transfers end, then it exits. Example, two daemons on one machine:\n"
      "  onecopyd --name west --listen 127.0.0.1:7711 --run-dir /tmp/west\n"
      "  onecopyd --name east --listen 127.0.0.1:7701 --run-dir /tmp/east --peer "
      "west=127.0.0.1:7711");
  app.add_option("--config", line.config_file, "TOML file; see: onecopyd config default")
      ->type_name("FILE")
      ->check(CLI::Validator(
          [](std::string& file) { return file.empty() ? "is empty" : std::string(); }, ""));
  app.add_option("--name", flags.name, "name of this node; default: the host's name")
      ->type_name("NAME");
  app.add_option("--listen", flags.listen, "where peers connect; default 127.0.0.1:7701")
      ->type_name("HOST:PORT");
  app.add_option("--lanes", flags.lanes,
                 "where the lanes of the tcp link arrive; default: the next port")
      ->type_name("HOST:PORT");
  app.add_option("--metrics-listen", flags.metrics_listen,
                 "where metrics are served; default 127.0.0.1:9464; off: nowhere")
      ->type_name("HOST:PORT");
  app.add_option("--peer", flags.peers, "another node; may be given several times")
      ->type_name("NAME=HOST:PORT")
      ->allow_extra_args(false);
  app.add_option(
         "--run-dir", flags.run_dir,
         "folder of the sockets for clients; default /run/onecopy, else $XDG_RUNTIME_DIR/onecopy")
      ->type_name("DIR");

  CLI::App* config = app.add_subcommand("config", "the configuration file");
  config->require_subcommand(1);
  config->add_subcommand("default", "print it with every key at its default, commented")
      ->callback([&] { line.what = CommandLine::Do::kPrintDefaultConfig; });
  CLI::App* check =
      config->add_subcommand("check", "say whether a file is valid, and what in it is not");
  check->add_option("FILE", line.config_file, "the file")->required();
  check->callback([&] { line.what = CommandLine::Do::kCheckConfig; });
}

}  // namespace

void WithDaemonDefinition(const std::function<void(const CLI::App&)>& use) {
  CLI::App app(kDescription, kName);
  CommandLine line;
  Define(app, line);
  use(app);
}

Parsed ParseCommandLine(int argc, char** argv) {
  CLI::App app(kDescription, kName);
  CommandLine line;
  Define(app, line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return {std::nullopt, status == 0 ? 0 : ExitStatusOf(Code::kInvalidArgument)};
  }
  return {std::move(line), 0};
}

}  // namespace onecopy
