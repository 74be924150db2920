// Which NIXL this process loaded the plug-in into, and whether its layouts are known.
#pragma once

#include <string>
#include <vector>

#include "onecopy/result.h"

namespace onecopy::nixl {

// Of NIXL's wheels (nixl-cu12, nixl-cu13), in order: those for which abi.h is right, as
// tests/python/nixl_layout has shown of each. A new one is added there and here.
const std::vector<std::string>& KnownVersions();

struct NixlCore {
  std::string library;  // path of its libnixl.so
  std::string package;  // "nixl_cu13"
  std::string version;  // "1.5.1"
};

// The core whose code is at `address`, and the package that brought it: the one beside it
// (…/NAME-VERSION.dist-info) whose RECORD lists that very library, with the size that it has.
// FAILED_PRECONDITION (NIXL_UNKNOWN) if no package brought it: the layouts of a
// core that was built by hand are unknown.
Result<NixlCore> FindCore(const void* address);
// The same of a library by its path.
Result<NixlCore> FindCoreOf(const std::string& library);

// FAILED_PRECONDITION (NIXL_UNKNOWN), with what to install, unless the version is a known one.
Status CheckKnown(const NixlCore& core);

}  // namespace onecopy::nixl
