#include "bench/program.h"

#include <fnmatch.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "bench/measure/row_json.h"
#include "bench/measure/row_table.h"
#include "bench/version.h"
#include "bench/work/works.h"
#include "transport/core/duration.h"
#include "transport/core/exit_status.h"
#include "transport/core/reasons.h"
#include "transport/core/size.h"

namespace onecopy::bench {
namespace {

volatile sig_atomic_t stop_requested = 0;

constexpr char kFooter[] =
    "Rows end OK, WAIVED (cannot run here; says why) or FAILED (below its floor, or broken).\n"
    "Exit status: 0 no row FAILED, 1 one did, 130 stopped by a signal, else as onecopy's.\n"
    "Example:\n"
    "  onecopy-bench run --filter '*host to host' --size 256MiB --json rows.json";

struct Options {
  std::string filter = "*";
  std::string json_file;
  std::string size = "1GiB";
  std::string idle = "10s";
  std::string onecopyd;
  std::vector<std::string> link_keys;
  Settings settings;
};

// The first of these signals lets the sample under way end; a second one ends the process, and with
// it the daemons.
void StopOnSignals() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_requested = 1; };
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

Status BadArgument(std::string what) {
  return {Code::kInvalidArgument, reasons::kBadArgument, std::move(what)};
}

// The daemon of this build or installation: beside this program.
std::string BesideThisProgram(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / name).string();
}

Result<Settings> SettingsOf(const Options& options) {
  Settings settings = options.settings;
  ONECOPY_ASSIGN_OR_RETURN(settings.bytes, ParseBytes(options.size));
  if (settings.bytes == 0) return BadArgument("--size must be at least 1");
  ONECOPY_ASSIGN_OR_RETURN(settings.idle, ParseDuration(options.idle));
  if (settings.idle.count() == 0) return BadArgument("--idle must be longer than nothing");
  settings.daemon.program =
      options.onecopyd.empty() ? BesideThisProgram("onecopyd") : options.onecopyd;
  if (!std::filesystem::exists(settings.daemon.program)) {
    return Status(Code::kNotFound, reasons::kFileNotFound, "there is no " + settings.daemon.program,
                  "name it by --onecopyd PATH");
  }
  for (const std::string& key : options.link_keys) settings.link_keys += key + "\n";
  settings.stopped = [] { return stop_requested != 0; };
  return settings;
}

Result<std::vector<Work>> Chosen(const std::string& glob) {
  std::vector<Work> chosen;
  std::string all;
  for (const Work& work : AllWorks()) {
    all += (all.empty() ? "\"" : ", \"") + work.name + "\"";
    if (::fnmatch(glob.c_str(), work.name.c_str(), 0) == 0) chosen.push_back(work);
  }
  if (!chosen.empty()) return chosen;
  return BadArgument("no work is called like \"" + glob + "\"; there are " + all);
}

std::vector<Row> Measure(const std::vector<Work>& works, const Settings& settings,
                         std::ostream& progress) {
  std::vector<Row> rows;
  for (const Work& work : works) {
    progress << work.name << " …" << std::flush;
    for (Row& row : work.run(settings)) {
      progress << ' ' << RowStatusName(row.status);
      rows.push_back(std::move(row));
    }
    progress << std::endl;
    if (settings.stopped()) break;
  }
  return rows;
}

Result<int> Run(const Options& options, const ProgramIo& io) {
  ONECOPY_ASSIGN_OR_RETURN(const Settings settings, SettingsOf(options));
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<Work> works, Chosen(options.filter));
  std::ofstream json;
  if (!options.json_file.empty()) {
    json.open(options.json_file);  // before minutes of measuring, not after
    if (!json) {
      return Status(Code::kInvalidArgument, reasons::kIo, options.json_file + " cannot be written");
    }
  }
  StopOnSignals();
  const std::vector<Row> rows = Measure(works, settings, io.progress);
  PrintTable(rows, io.out);
  io.out.flush();
  if (json.is_open() && !(json << ToJson(rows)).flush()) {
    return Status(Code::kInternal, reasons::kIo, "writing " + options.json_file + " failed");
  }
  if (stop_requested != 0) return ExitStatusOf(Code::kCancelled);
  const bool failed = std::any_of(rows.begin(), rows.end(),
                                  [](const Row& row) { return row.status == RowStatus::kFailed; });
  return failed ? ExitStatusOf(Code::kUnknown) : 0;
}

void AddOptions(CLI::App& run, Options& options) {
  run.add_option("--filter", options.filter, "only works whose name is like this; default: all")
      ->type_name("GLOB");
  run.add_option("--json", options.json_file, "write the rows there, too")->type_name("FILE");
  run.add_option("--size", options.size, "payload of one sample; default 1GiB")->type_name("BYTES");
  run.add_option("--samples", options.settings.samples,
                 "how often each is measured after one warm-up; default 5")
      ->check(CLI::Range(1U, 10000U));
  run.add_option("--idle", options.idle, "how long idle daemons are watched; default 10s")
      ->type_name("DURATION");
  run.add_option("--link-key", options.link_keys,
                 "in works over RDMA devices, a line of the link's section, as 'threads = 2'")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  run.add_option("--cut", options.settings.loss_interfaces,
                 "network interfaces between RDMA devices that \"rdma after losses\" may cut")
      ->type_name("INTERFACE")
      ->delimiter(',');
  run.add_option("--cycles", options.settings.cycles, "how often it does; default 100")
      ->check(CLI::Range(20U, 100000U));
  run.add_option("--onecopyd", options.onecopyd, "the daemon; default: the one beside this program")
      ->type_name("PATH");
  run.add_option("--cuda", options.settings.daemon.cuda_library,
                 "the CUDA driver's library; default: the system's")
      ->type_name("PATH");
}

}  // namespace

int RunProgram(const std::vector<std::string>& arguments, const ProgramIo& io) {
  CLI::App program("Measures what onecopy's paths reach, beside what plain programs reach.",
                   "onecopy-bench");
  program.footer(kFooter);
  program.require_subcommand(1);
  program.set_version_flag("--version", "onecopy-bench " ONECOPY_VERSION, "Print the version");
  Options options;
  CLI::App* const run = program.add_subcommand(
      "run", "measure, between daemons that are started for it and end with it");
  AddOptions(*run, options);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    program.parse(reversed);
  } catch (const CLI::Success& wanted) {  // --help, --version
    program.exit(wanted, io.out, io.progress);
    return 0;
  } catch (const CLI::ParseError& error) {
    io.progress << "onecopy-bench: " << error.what() << "\n  try: onecopy-bench run --help\n";
    return ExitStatusOf(Code::kInvalidArgument);
  }
  const Result<int> status = Run(options, io);
  if (status.ok()) return *status;
  io.progress << "onecopy-bench: " << status.status().message() << '\n';
  if (!status.status().remedy().empty()) {
    io.progress << "  try: " << status.status().remedy() << '\n';
  }
  return ExitStatusOf(status.status().code());
}

}  // namespace onecopy::bench
