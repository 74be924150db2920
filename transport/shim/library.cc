#include "transport/shim/library.h"

#include <dlfcn.h>

namespace onecopy::shim {

Result<Library> Library::Open(const std::string& path, const std::string& soname,
                              const std::string& key, std::string_view missing,
                              const std::string& package) {
  const std::string& name = path.empty() ? soname : path;
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return Status(Code::kFailedPrecondition, missing,
                  "the library " + name + " cannot be opened: " + (why == nullptr ? "?" : why),
                  path.empty() ? "install " + package + ", or set its path under [libraries] " + key
                               : "correct [libraries] " + key + " in the configuration");
  }
  return Library(name, handle);
}

void* Library::Find(const char* symbol) const { return ::dlsym(handle_, symbol); }

}  // namespace onecopy::shim
