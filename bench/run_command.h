// `onecopy-bench run`.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "bench/program.h"
#include "bench/work/settings.h"

namespace onecopy::bench {

// Where `tune` is told to write, and onecopyd as a service reads.
inline constexpr char kTunedFile[] = "/etc/onecopy/tuned.toml";

// As typed.
struct RunOptions {
  std::string filter = "*";
  std::string json_file;
  std::string csv_file;
  std::string size;                // one for all works; empty: `sizes`
  std::vector<std::string> sizes;  // empty: the default ones
  std::vector<unsigned> lanes;     // empty: the daemon's choice
  std::string slot_bytes;          // empty: the daemon's choice, as for `slots` in `settings`
  std::string idle = "10s";
  std::string onecopyd;
  std::vector<std::string> link_keys;
  std::vector<std::string> cuda_keys;
  std::vector<std::string> posix_keys;
  Settings settings;
};

// The exit status: 0 where no row FAILED, 1 where one did, 130 where `stopped` said yes; or the
// error that kept anything from being measured.
Result<int> Run(const RunOptions& options, const std::function<bool()>& stopped,
                const ProgramIo& io);

}  // namespace onecopy::bench
