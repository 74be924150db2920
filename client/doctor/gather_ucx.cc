// Which UCX would be loaded, and what it brings.
#include <dlfcn.h>

#include <filesystem>

#include "client/doctor/gather_parts.h"
#include "transport/os/machine/sysfs.h"
#include "transport/shim/ucx.h"

namespace onecopy::doctor {
namespace {

// Where the loader found the library of a function.
std::string FileOf(const void* function) {
  Dl_info info{};
  return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

}  // namespace

void ReadUcxModules(const std::string& library, Ucx& ucx) {
  std::error_code ignored;
  const std::filesystem::path file = std::filesystem::canonical(library, ignored);
  ucx.modules_folder = (file.parent_path() / "ucx").string();
  ucx.modules.clear();
  ucx.verbs = ucx.cuda = false;
  for (const std::string& name : sysfs::List(ucx.modules_folder)) {
    if (!name.starts_with("libuc") || name.starts_with("libucx_")) continue;  // tools
    if (!name.ends_with(".so.0") && !name.ends_with(".so")) continue;
    const std::string module = name.substr(0, name.find(".so"));
    if (!ucx.modules.empty() && ucx.modules.back() == module) continue;
    ucx.modules.push_back(module);
    // libuct_ib, and in newer ones libuct_ib_mlx5 beside it; not libuct_rdmacm, which only
    // connects.
    if (module.starts_with("libuct_ib")) ucx.verbs = true;
    if (module.starts_with("libuct_cuda")) ucx.cuda = true;
  }
}

void AskUcx(Facts& facts) {
  const auto api = shim::LoadUcx();
  if (!api.ok()) {
    facts.ucx.reason = api.status().reason();
    facts.ucx.detail = api.status().message();
    facts.ucx.remedy = api.status().remedy();
    return;
  }
  facts.ucx.found = true;
  facts.ucx.version = (*api)->GetVersionString();
  ReadUcxModules(FileOf(reinterpret_cast<const void*>((*api)->GetVersionString)), facts.ucx);
}

}  // namespace onecopy::doctor
