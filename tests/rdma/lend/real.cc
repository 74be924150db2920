#include "tests/rdma/lend/real.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <type_traits>

namespace onecopy::lend {
namespace {

RealVerbs Load() {
  void* const library = ::dlopen("libibverbs.so.1", RTLD_NOW);
  RealVerbs real;
  auto find = [&](auto& member, const char* name) {
    if (library != nullptr)
      member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(::dlsym(library, name));
    if (member == nullptr) {
      std::fprintf(stderr, "the lent verbs find no %s in libibverbs.so.1\n", name);
      std::abort();
    }
  };
#define ONECOPY_LEND_FIND(name) find(real.name, #name);
  ONECOPY_LEND_FUNCTIONS(ONECOPY_LEND_FIND)
#undef ONECOPY_LEND_FIND
  return real;
}

}  // namespace

const RealVerbs& Real() {
  static const RealVerbs real = Load();
  return real;
}

}  // namespace onecopy::lend
