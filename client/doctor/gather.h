// Looks at the machine, its libraries and its daemon.
#pragma once

#include <string>

#include "client/doctor/facts.h"

namespace onecopy::doctor {

struct GatherOptions {
  // Files are read below this folder. With another one than "/", which a test plants, libraries and
  // the daemon are not asked, and the rules of DiscoverTopology for threads hold.
  std::string root = "/";
  std::string run_dir = {};  // of the daemon; empty: as Client::Connect finds it
  std::string program = "onecopy-doctor";
};

// Sets what drivers and libraries read of the environment. For a program's main thread, before
// there are others and before Gather.
void PrepareEnvironment();

// Blocks for as long as drivers and daemon take to answer. Never fails: what cannot be looked at is
// empty. Loads vendors' libraries into this process, and opens no context on any GPU.
Facts Gather(const GatherOptions& options);

// Adds what a daemon tells about itself and its peers, and its probes. Part of Gather.
void AddDaemon(const GatherOptions& options, Facts& facts);

}  // namespace onecopy::doctor
