#include "daemon/command_line.h"

#include <CLI/CLI.hpp>

#include "daemon/version.h"
#include "transport/core/base/exit_status.h"

namespace onecopy {
namespace {

constexpr char kName[] = "onecopyd";
constexpr char kDescription[] =
    "Daemon that moves GPU and host memory between machines by the shortest path that works.";

void Define(CLI::App& app, CommandLine& line) {
  config::Overrides& flags = line.overrides;
  app.set_version_flag("--version", std::string("onecopyd ") + kVersion);
  app.footer(
      "Prints one line when it is ready: ready name=NAME listen=HOST:PORT run-dir=DIR "
      "metrics=HOST:PORT\nOn SIGTERM it waits for running transfers, then exits. Example, two "
      "daemons on one machine:\n"
      "  onecopyd --name west --listen 127.0.0.1:7711 --run-dir /tmp/west\n"
      "  onecopyd --name east --listen 127.0.0.1:7701 --run-dir /tmp/east --peer "
      "west=127.0.0.1:7711");
  app.add_option("--config", line.config_file,
                 "configuration file (TOML); print a sample with: onecopyd config default")
      ->type_name("FILE")
      ->check(CLI::Validator(
          [](std::string& file) { return file.empty() ? "is empty" : std::string(); }, ""));
  app.add_option("--name", flags.name, "name of this node; default: the host name")
      ->type_name("NAME");
  app.add_option("--listen", flags.listen, "address for peers; default 127.0.0.1:7701")
      ->type_name("HOST:PORT");
  app.add_option("--lanes", flags.lanes,
                 "address for the payload over TCP, or several with commas between, one of each "
                 "network; default: the port after --listen")
      ->type_name("HOST:PORT,...");
  app.add_option("--metrics-listen", flags.metrics_listen,
                 "address for metrics and the status page, or off; default 127.0.0.1:9464")
      ->type_name("HOST:PORT");
  app.add_option("--peer", flags.peers, "another node; may be repeated")
      ->type_name("NAME=HOST:PORT")
      ->allow_extra_args(false);
  app.add_option(
         "--run-dir", flags.run_dir,
         "folder for the clients' sockets; default /run/onecopy, else $XDG_RUNTIME_DIR/onecopy")
      ->type_name("DIR");
  app.add_option("--holder", flags.holder,
                 "what holds the buffers' memory while the daemon is restarted: off, own, or the "
                 "socket of an onecopy-holder; default off")
      ->type_name("SOCKET");

  CLI::App* config = app.add_subcommand("config", "print or check a configuration file");
  config->require_subcommand(1);
  config
      ->add_subcommand("default", "print a sample file: every key with its default, commented out")
      ->callback([&] { line.what = CommandLine::Do::kPrintDefaultConfig; });
  CLI::App* check = config->add_subcommand("check", "check a file and print each error in it");
  check->add_option("FILE", line.config_file, "the configuration file")->required();
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
