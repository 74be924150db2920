#include "bench/daemons/daemon.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::bench {
namespace {

constexpr std::chrono::seconds kReadyLimit{30};
constexpr size_t kLogTail = 2000;

// A text of TOML.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted.push_back('\\');
    quoted.push_back(c);
  }
  return quoted + "\"";
}

Status WriteConfig(const std::string& path, const DaemonOptions& options) {
  std::ofstream file(path);
  file << "version = 1\n";
  const bool beyond_loopback = options.address.rfind("127.", 0) != 0;
  if (beyond_loopback) file << "insecure = true\n";
  file << "uid_domain = \"bench\"\n";
  if (!options.tuned.empty()) file << "tuned = " << Quoted(options.tuned) << "\n";
  // Whom loopback would let in needs a name with certificates.
  file << "[peers.\"*\"]\nuid_domain = \"bench\"\n[staging]\n";
  if (options.slot_bytes) file << "slot_bytes = " << *options.slot_bytes << "\n";
  if (options.slots) file << "slots = " << *options.slots << "\n";
  file << "[libraries]\ncuda = " << Quoted(options.cuda_library) << "\n";
  if (!options.cufile_library.empty())
    file << "cufile = " << Quoted(options.cufile_library) << "\n";
  file << options.sections;
  errno = 0;
  if (file.flush()) return OkStatus();
  return os::ErrnoStatus(errno == 0 ? EIO : errno, "writing " + path);
}

// Whether there is too little room for what a daemon writes: its configuration, its log, its
// sockets.
bool IsFull(const std::string& folder) {
  constexpr uint64_t kNeeded = uint64_t{64} << 10;
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  return !error && space.available < kNeeded;
}

// Of "ready name=east listen=127.0.0.1:7701 run-dir=…"; empty for any other line.
std::string AddressIn(const std::string& line) {
  constexpr std::string_view kKey = " listen=";
  const size_t at = line.find(kKey);
  if (line.rfind("ready ", 0) != 0 || at == std::string::npos) return {};
  const size_t begin = at + kKey.size();
  return line.substr(begin, line.find(' ', begin) - begin);
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::Start(const DaemonOptions& options, const std::string& name,
                                              const std::vector<std::string>& peers) {
  ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<TempFolder> folder, TempFolder::Create());
  std::unique_ptr<Daemon> daemon(new Daemon(name, std::move(folder)));
  if (Status status = daemon->Begin(options, peers); !status.ok()) {
    if (IsFull(daemon->folder_->path())) {
      return Status(Code::kResourceExhausted, reasons::kNoSpace,
                    "there is no room for a daemon's files in " + daemon->folder_->path(),
                    "set TMPDIR to a folder with more room");
    }
    return status.WithContext("starting onecopyd as " + name + daemon->EndOfLog());
  }
  return daemon;
}

Status Daemon::Begin(const DaemonOptions& options, const std::vector<std::string>& peers) {
  const std::string config = folder_->path() + "/config.toml";
  ONECOPY_RETURN_IF_ERROR(WriteConfig(config, options));
  std::vector<std::string> arguments = {
      "--config",  config,   "--name",           name_, "--listen", options.address + ":0",
      "--run-dir", RunDir(), "--metrics-listen", "off"};
  for (const std::string& peer : peers) {
    arguments.insert(arguments.end(), {"--peer", peer});
  }
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  ONECOPY_ASSIGN_OR_RETURN(Process process,
                           Process::Start(options.program, arguments, folder_->path() + "/log"));
  process_ = std::make_unique<Process>(std::move(process));
  ONECOPY_ASSIGN_OR_RETURN(const std::string line, process_->ReadLine(kReadyLimit));
  ready_seconds_ = std::chrono::duration<double>(Clock::now() - begin).count();
  address_ = AddressIn(line);
  if (!address_.empty()) return OkStatus();
  return {Code::kFailedPrecondition, reasons::kInternal, "it says \"" + line + "\"",
          "give the path of onecopyd with --onecopyd"};
}

Result<Client> Daemon::Connect() const { return AsNode().Connect(); }

std::string Daemon::EndOfLog() const {
  std::ifstream file(folder_->path() + "/log");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string log = text.str();
  if (log.empty()) return {};
  return "; its log ends with:\n" + log.substr(log.size() - std::min(log.size(), kLogTail));
}

Result<std::string> DaemonProgram(const std::string& named) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = named.empty() ? (self.parent_path() / "onecopyd").string() : named;
  if (std::filesystem::exists(program)) return program;
  return Status(Code::kNotFound, reasons::kFileNotFound, "there is no " + program,
                "give its path with --onecopyd PATH");
}

}  // namespace onecopy::bench
