// The configuration that a command line asks for, after every check that needs only files:
// `onecopyd config check` reports what a start would report.
#pragma once

#include <memory>
#include <optional>

#include "daemon/command_line.h"
#include "daemon/config/config.h"
#include "onecopy/topology.h"
#include "transport/tls/trust.h"

namespace onecopy {

struct Configured {
  config::Config config;
  std::shared_ptr<tls::Trust> trust;  // null without [tls]
  std::optional<Topology> topology;   // of the file that the configuration names
};

tls::Files FilesOf(const config::Tls& tls);

// Only reads. Fails for whatever is wrong in the files, or could not be spoken safely.
Result<config::Config> ReadConfig(const CommandLine& line, const config::Schema& schema);
// The same, and the files that the configuration names.
Result<Configured> Configure(const CommandLine& line, const config::Schema& schema);

}  // namespace onecopy
