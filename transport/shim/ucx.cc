#include "transport/shim/ucx.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "transport/shim/find_ucx.h"
#include "transport/shim/library.h"

namespace onecopy::shim {
namespace {

Result<std::shared_ptr<UcxApi>> Open(const std::string& path) {
  ONECOPY_ASSIGN_OR_RETURN(const Library library, Library::Open(path, "libucp.so.0", "ucx",
                                                                reasons::kLinkMissing, "libucx0"));
  auto api = std::make_shared<UcxApi>();
  api->library = library.name();
  const char* missing = nullptr;
  auto find = [&](auto& member, const char* symbol) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(library.Find(symbol));
    if (member == nullptr && missing == nullptr) missing = symbol;
  };
#define ONECOPY_UCX_FIND(member, symbol) find(api->member, #symbol);
  ONECOPY_UCX_FUNCTIONS(ONECOPY_UCX_FIND)
#undef ONECOPY_UCX_FIND
  if (missing != nullptr) {
    return Status(Code::kFailedPrecondition, reasons::kLinkMissing,
                  library.name() + " has no function " + missing + ": it is older than UCX 1.13",
                  "install UCX 1.13 or newer");
  }
  if (!api->NotOlderThan(kOldestUcxMajor, kOldestUcxMinor)) {
    return Status(Code::kFailedPrecondition, reasons::kLinkMissing,
                  library.name() + " is UCX " + api->GetVersionString() + ", older than 1.13",
                  "install UCX 1.13 or newer");
  }
  return api;
}

}  // namespace

bool UcxApi::NotOlderThan(unsigned major, unsigned minor) const {
  unsigned has_major = 0;
  unsigned has_minor = 0;
  unsigned release = 0;
  GetVersion(&has_major, &has_minor, &release);
  return has_major > major || (has_major == major && has_minor >= minor);
}

void PrepareUcxEnvironment() {
  constexpr int kKeepTheUsers = 0;
  // Every operation names its memory's kind, and no cache can then be wrong about it.
  ::setenv("UCX_MEMTYPE_CACHE", "n", kKeepTheUsers);
  // No signal handlers: a crash belongs to the system's handling of crashes, and SIGHUP, which UCX
  // takes for the wish to see more of its log, to its daemon.
  ::setenv("UCX_HANDLE_ERRORS", "none", kKeepTheUsers);
  ::setenv("UCX_DEBUG_SIGNO", "0", kKeepTheUsers);
  // A daemon's standard output is for its ready line.
  ::setenv("UCX_LOG_FILE", "stderr", kKeepTheUsers);
}

Result<std::shared_ptr<const UcxApi>> LoadUcx(const std::string& path) {
  std::string passed_over;
  if (path.empty()) {
    const std::vector<UcxBuild> builds = InstalledUcx();
    for (const UcxBuild& build : builds) {
      if (build.vendors && !build.unsafe.empty()) passed_over = build.library + ": " + build.unsafe;
    }
    if (const UcxBuild* const vendors = ChooseUcx(builds); vendors != nullptr) {
      Result<std::shared_ptr<UcxApi>> api = Open(vendors->library);
      if (api.ok()) return std::shared_ptr<const UcxApi>(std::move(*api));
      passed_over = vendors->library + ": " + api.status().message();
    }
  }
  ONECOPY_ASSIGN_OR_RETURN(const std::shared_ptr<UcxApi> api, Open(path));
  api->passed_over = std::move(passed_over);
  return std::shared_ptr<const UcxApi>(api);
}

}  // namespace onecopy::shim
