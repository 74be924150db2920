// An onecopyd of the bench's own, as an operator would start it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/daemons/node.h"
#include "bench/daemons/process.h"
#include "bench/daemons/temp_folder.h"
#include "onecopy/client.h"
#include "onecopy/result.h"

namespace onecopy::bench {

struct DaemonOptions {
  std::string program = {};         // path of onecopyd
  std::string cuda_library = {};    // of the driver; empty: the system's
  std::string cufile_library = {};  // likewise, libcufile
  // What its configuration does not say it takes from this file, which `tune` has written. Empty:
  // the daemon's own defaults.
  std::string tuned = {};
  // Of its staging slots; neither: as `tuned` has it.
  std::optional<uint64_t> slot_bytes = {};
  std::optional<unsigned> slots = {};
  std::string address =
      "127.0.0.1";            // at which it serves; off loopback it is told to do so in the clear
  std::string sections = {};  // further ones of its configuration
};

// Serves on loopback where nothing else is said, on free ports and in a folder of its own, from
// Start to the destructor, which waits for its end. One thread at a time, except for clients.
class Daemon {
 public:
  // `peers` as onecopyd takes them: "NAME=HOST:PORT". An error tells the end of its log.
  static Result<std::unique_ptr<Daemon>> Start(const DaemonOptions& options,
                                               const std::string& name,
                                               const std::vector<std::string>& peers = {});

  const std::string& name() const { return name_; }
  pid_t pid() const { return process_->pid(); }
  std::string AsPeer() const { return name_ + "=" + address_; }
  // From its start to the line that says that it serves.
  double ready_seconds() const { return ready_seconds_; }

  Result<Client> Connect() const;
  Node AsNode() const { return {.name = name_, .run_dir = RunDir(), .pid = pid()}; }

 private:
  Daemon(std::string name, std::unique_ptr<TempFolder> folder)
      : name_(std::move(name)), folder_(std::move(folder)) {}
  Status Begin(const DaemonOptions& options, const std::vector<std::string>& peers);
  std::string RunDir() const { return folder_->path() + "/run"; }
  std::string EndOfLog() const;

  const std::string name_;
  std::unique_ptr<TempFolder> folder_;  // goes after the process
  std::unique_ptr<Process> process_;
  std::string address_;
  double ready_seconds_ = 0;
};

// `named`, or, where that is empty, the daemon of this build or installation: beside this program.
// NOT_FOUND where there is none.
Result<std::string> DaemonProgram(const std::string& named);

}  // namespace onecopy::bench
