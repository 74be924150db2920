// What a user of NIXL can set of this backend: create_backend("ONECOPY", {"run_dir": …}).
#pragma once

#include <string>
#include <vector>

#include "client/nixl/abi.h"
#include "onecopy/result.h"
#include "onecopy/transfer.h"

namespace onecopy::nixl {

struct Settings {
  std::string run_dir = {};                // of the daemon; empty: as every client finds it
  Policy policy = {};                      // of every transfer: "at_most", "path"
  bool checksum = false;                   // of every transfer
  std::vector<std::string> grant_to = {};  // other owners that may read and write registered memory
};

// Every setting with its default, as NIXL shows them.
abi::Parameters DefaultParameters();

// INVALID_ARGUMENT (BAD_CONFIG) for an unknown setting, and for a bad value.
Result<Settings> ParseSettings(const abi::Parameters& parameters);

}  // namespace onecopy::nixl
