// Which UCX would be loaded, and what it brings.
#include <dlfcn.h>

#include <filesystem>

#include "client/doctor/gather_parts.h"
#include "transport/core/reasons.h"
#include "transport/shim/library.h"
#include "transport/topology/sysfs.h"

namespace onecopy::doctor {
namespace {

// Where the loader found the library.
std::string FileOf(const void* symbol) {
  Dl_info info{};
  return ::dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

}  // namespace

void AskUcx(Facts& facts) {
  const auto library = shim::Library::Open("", "libucp.so.0", "ucx", reasons::kLinkMissing);
  if (!library.ok()) {
    facts.ucx.reason = library.status().reason();
    facts.ucx.detail = library.status().message();
    facts.ucx.remedy = library.status().remedy();
    return;
  }
  void* symbol = library->Find("ucp_get_version_string");
  if (symbol == nullptr) {
    facts.ucx.reason = reasons::kLinkMissing;
    facts.ucx.detail = library->name() + " has no ucp_get_version_string";
    return;
  }
  facts.ucx.found = true;
  facts.ucx.version = reinterpret_cast<const char* (*)()>(symbol)();
  // Its transports are modules, in a folder beside it.
  std::error_code ignored;
  const std::filesystem::path file = std::filesystem::canonical(FileOf(symbol), ignored);
  facts.ucx.modules_folder = (file.parent_path() / "ucx").string();
  for (const std::string& name : sysfs::List(facts.ucx.modules_folder)) {
    if (!name.ends_with(".so.0") && !name.ends_with(".so")) continue;
    const std::string module = name.substr(0, name.find(".so"));
    if (!facts.ucx.modules.empty() && facts.ucx.modules.back() == module) continue;
    facts.ucx.modules.push_back(module);
    // libuct_ib, and since 1.17 libuct_ib_mlx5 beside it; not libuct_rdmacm, which only connects.
    if (module.starts_with("libuct_ib")) facts.ucx.verbs = true;
    if (module.starts_with("libuct_cuda")) facts.ucx.cuda = true;
  }
}

}  // namespace onecopy::doctor
