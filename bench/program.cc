#include "bench/program.h"

#include <signal.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <atomic>

#include "bench/load/kernels.h"
#include "bench/matrix_command.h"
#include "bench/report_command.h"
#include "bench/run_command.h"
#include "bench/tune_command.h"
#include "bench/version.h"
#include "bench/work/lend.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/core/base/exit_status.h"

namespace onecopy::bench {
namespace {

volatile sig_atomic_t stop_requested = 0;
// `timeout` sends its signal to the process, and then to the group that it is in: one request.
constexpr int64_t kOneRequestMs = 500;

constexpr char kName[] = "onecopy-bench";
constexpr char kDescription[] =
    "Measures onecopy's paths beside plain programs that do the same work.";
constexpr char kFooter[] =
    "Each row ends OK, WAIVED (cannot run here; the row says why) or FAILED (below its floor, or "
    "broken).\nExit status: 0 no row FAILED, 1 a row FAILED, 130 stopped by a signal, else that of "
    "onecopy.\n"
    "Examples:\n"
    "  onecopy-bench run --filter '*host to host' --sizes 1MiB,256MiB --json rows.json\n"
    "  onecopy-bench run --peer west --json rows.json     (on west: onecopy-bench lend)\n"
    "  onecopy-bench report rows.json --html rows.html\n"
    "  onecopy-bench matrix --json matrix.json             (every two GPUs: P2P on and off, "
    "onecopy)";

struct LendArguments {
  std::string size = "1GiB";
  LendOptions options;
};

// On any thread, and on two at once.
void OnSignal(int signal) {
  static std::atomic<int64_t> first_ms = 0;  // 0: none has come
  static_assert(std::atomic<int64_t>::is_always_lock_free);
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t now_ms = int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
  int64_t first = 0;
  if (first_ms.compare_exchange_strong(first, now_ms)) {
    stop_requested = 1;
  } else if (now_ms - first >= kOneRequestMs) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
}

// The first of these signals lets the sample under way end; one that comes later ends the process,
// and with it the daemons.
void StopOnSignals() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

bool Stopped() { return stop_requested != 0; }

Result<int> LendUntilStopped(const LendArguments& arguments, const ProgramIo& io) {
  LendOptions options = arguments.options;
  ONECOPY_ASSIGN_OR_RETURN(options.bytes, ParseBytes(arguments.size));
  if (options.bytes == 0) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument, "--size must be at least 1");
  }
  options.stopped = Stopped;
  ONECOPY_RETURN_IF_ERROR(Lend(options, io.out));
  return 0;
}

void AddRunOptions(CLI::App& run, RunOptions& options) {
  Settings& settings = options.settings;
  run.add_option("--filter", options.filter,
                 "run only the works with a matching name; default: all")
      ->type_name("GLOB");
  run.add_option("--json", options.json_file, "also write the rows to this file, as JSON")
      ->type_name("FILE");
  run.add_option("--csv", options.csv_file, "also write the rows to this file, as CSV")
      ->type_name("FILE");
  run.add_option("--sizes", options.sizes,
                 "payload sizes to measure; default 4KiB,64KiB,1MiB,16MiB,256MiB,1GiB")
      ->type_name("BYTES")
      ->delimiter(',');
  run.add_option("--size", options.size, "one payload size for all works")->type_name("BYTES");
  run.add_option("--lanes", options.lanes,
                 "numbers of TCP lanes to measure, such as 4,8; default: the daemon's choice")
      ->delimiter(',')
      ->check(CLI::Range(1U, 64U));
  run.add_option("--slots", settings.daemon.slots,
                 "staging slots of the daemons that the bench starts; default: the daemon's choice")
      ->check(CLI::Range(4U, 65536U));
  run.add_option("--slot-size", options.slot_bytes,
                 "size of each of these slots; default: the daemon's choice")
      ->type_name("BYTES");
  run.add_option("--tuned", settings.daemon.tuned,
                 "file of settings from `tune`, for the daemons that the bench starts; default: " +
                     std::string(kTunedFile) + ", if it exists")
      ->type_name("FILE");
  run.add_option(
         "--samples", settings.samples,
         "samples of each row after one warm-up; default 5; small payloads get 4 times as many")
      ->check(CLI::Range(1U, 10000U));
  run.add_option("--peer", settings.given.peer,
                 "use the running daemon and this peer of it, instead of starting two daemons")
      ->type_name("NAME");
  run.add_option("--run-dir", settings.given.run_dir, "run directory of the running daemon")
      ->type_name("DIR");
  run.add_option(
         "--competitors", settings.competitors,
         "also measure the competitors that bench/competitors/install installed in this folder")
      ->type_name("DIR");
  run.add_option("--idle", options.idle, "how long to watch idle daemons; default 10s")
      ->type_name("DURATION");
  run.add_option("--link-key", options.link_keys,
                 "add this line to the RDMA link's section, as in 'threads = 2'; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  run.add_option("--cuda-key", options.cuda_keys,
                 "add this line to the section [cuda], as in 'scatter = \"kernel\"'")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  run.add_option("--posix-key", options.posix_keys,
                 "add this line to the section [posix], as in 'depth = 16'")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  run.add_option("--cut", settings.loss_interfaces,
                 "network interfaces that the work \"rdma after losses\" may cut")
      ->type_name("INTERFACE")
      ->delimiter(',');
  run.add_option("--cycles", settings.cycles, "how often it cuts them; default 100")
      ->check(CLI::Range(20U, 100000U));
  run.add_option("--onecopyd", options.onecopyd,
                 "path of onecopyd; default: the one beside this program")
      ->type_name("PATH");
  run.add_option("--cuda", settings.daemon.cuda_library,
                 "path of the CUDA driver library; default: the system's")
      ->type_name("PATH");
  run.add_option("--cufile", settings.daemon.cufile_library,
                 "path of the GPUDirect Storage library; default: the system's")
      ->type_name("PATH");
}

void AddReportOptions(CLI::App& report, ReportOptions& options) {
  report.add_option("FILE", options.files, "files that `run --json` wrote; several are merged")
      ->required();
  report.add_option("--html", options.html_file, "the HTML file to write")
      ->type_name("FILE")
      ->required();
}

void AddTuneOptions(CLI::App& tune, TuneArguments& arguments) {
  tune.add_option("--write", arguments.write,
                  "write the settings to this file; onecopyd reads tuned.toml beside its "
                  "configuration file")
      ->type_name("FILE");
  tune.add_option("--size", arguments.size, "payload size of one sample; default 256MiB")
      ->type_name("BYTES");
  tune.add_option("--samples", arguments.options.samples,
                  "samples of each choice after one warm-up; default 5")
      ->check(CLI::Range(1U, 1000U));
  tune.add_option("--onecopyd", arguments.onecopyd,
                  "path of onecopyd; default: the one beside this program")
      ->type_name("PATH");
  tune.add_option("--cuda", arguments.options.daemon.cuda_library,
                  "path of the CUDA driver library; default: the system's")
      ->type_name("PATH");
}

void AddMatrixOptions(CLI::App& matrix, MatrixArguments& arguments) {
  matrix.add_option("--size", arguments.size, "size of each copy and transfer; default 256MiB")
      ->type_name("BYTES");
  matrix
      .add_option("--samples", arguments.samples,
                  "samples of each figure after one warm-up; default 5")
      ->check(CLI::Range(1U, 1000U));
  matrix
      .add_option("--json", arguments.json_file,
                  "also write the figures to this file, as JSON, one object for each pair")
      ->type_name("FILE");
  matrix
      .add_option("--onecopyd", arguments.onecopyd,
                  "path of onecopyd; default: the one beside this program")
      ->type_name("PATH");
  matrix
      .add_option("--cuda", arguments.daemon.cuda_library,
                  "path of the CUDA driver library; default: the system's")
      ->type_name("PATH");
}

Result<int> LoadUntilStopped(const std::string& cuda_library, const ProgramIo& io) {
  ONECOPY_RETURN_IF_ERROR(KeepGpusBusy({.cuda_library = cuda_library,
                                        .started = [&] { io.out << "busy" << std::endl; },
                                        .stopped = Stopped}));
  return 0;
}

void AddLendOptions(CLI::App& lend, LendArguments& arguments) {
  lend.add_option("--size", arguments.size, "size of each buffer; default 1GiB")
      ->type_name("BYTES");
  lend.add_option("--to", arguments.options.to,
                  "the user that may use the buffers: UID@NODE, where the other bench runs")
      ->type_name("OWNER");
  lend.add_option("--run-dir", arguments.options.run_dir, "run directory of the daemon")
      ->type_name("DIR");
}

int Tell(const Result<int>& status, std::ostream& errors) {
  if (status.ok()) return *status;
  errors << "onecopy-bench: " << status.status().message() << '\n';
  if (!status.status().remedy().empty()) errors << "  try: " << status.status().remedy() << '\n';
  return ExitStatusOf(status.status().code());
}

// What is typed, and the commands that take it.
struct Arguments {
  RunOptions run_options;
  ReportOptions report_options;
  LendArguments lend_arguments;
  TuneArguments tune_arguments;
  MatrixArguments matrix_arguments;
  std::string load_cuda_library;
  CLI::App* run = nullptr;
  CLI::App* report = nullptr;
  CLI::App* lend = nullptr;
  CLI::App* tune = nullptr;
  CLI::App* matrix = nullptr;
  CLI::App* load = nullptr;
};

void Define(CLI::App& program, Arguments& typed) {
  program.footer(kFooter);
  program.require_subcommand(1);
  program.set_version_flag("--version", "onecopy-bench " ONECOPY_VERSION, "Print the version");
  typed.run = program.add_subcommand(
      "run", "measure paths between two daemons that it starts, or between running ones (--peer)");
  typed.report = program.add_subcommand("report", "make one HTML page from the rows of runs");
  typed.lend = program.add_subcommand(
      "lend", "lend memory of this node to a bench on another node, until Ctrl-C");
  typed.tune =
      program.add_subcommand("tune", "find the best settings of tcp-staged for this machine");
  typed.matrix = program.add_subcommand(
      "matrix",
      "measure copies between each two GPUs, by plain CUDA with P2P on and off, and by a daemon");
  typed.load = program.add_subcommand(
      "load", "keep every GPU busy with kernels, as another program would, until Ctrl-C");
  typed.load
      ->add_option("--cuda", typed.load_cuda_library,
                   "path of the CUDA driver library; default: the system's")
      ->type_name("PATH");
  AddRunOptions(*typed.run, typed.run_options);
  AddTuneOptions(*typed.tune, typed.tune_arguments);
  AddMatrixOptions(*typed.matrix, typed.matrix_arguments);
  AddReportOptions(*typed.report, typed.report_options);
  AddLendOptions(*typed.lend, typed.lend_arguments);
}

}  // namespace

void WithDefinition(const std::function<void(const CLI::App&)>& use) {
  CLI::App program(kDescription, kName);
  Arguments typed;
  Define(program, typed);
  use(program);
}

int RunProgram(const std::vector<std::string>& arguments, const ProgramIo& io) {
  CLI::App program(kDescription, kName);
  Arguments typed;
  Define(program, typed);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    program.parse(reversed);
  } catch (const CLI::Success& wanted) {  // --help, --version
    program.exit(wanted, io.out, io.progress);
    return 0;
  } catch (const CLI::ParseError& error) {
    io.progress << "onecopy-bench: " << error.what() << "\n  try: onecopy-bench --help\n";
    return ExitStatusOf(Code::kInvalidArgument);
  }
  if (typed.report->parsed()) {
    const Status status = Report(typed.report_options);
    return status.ok() ? 0 : Tell(status, io.progress);
  }
  StopOnSignals();
  if (typed.tune->parsed()) {
    typed.tune_arguments.options.stopped = Stopped;
    return Tell(TuneMachine(typed.tune_arguments, io), io.progress);
  }
  if (typed.matrix->parsed()) {
    return Tell(MeasureMatrix(typed.matrix_arguments, Stopped, io), io.progress);
  }
  if (typed.load->parsed()) return Tell(LoadUntilStopped(typed.load_cuda_library, io), io.progress);
  return Tell(typed.lend->parsed() ? LendUntilStopped(typed.lend_arguments, io)
                                   : Run(typed.run_options, Stopped, io),
              io.progress);
}

}  // namespace onecopy::bench
