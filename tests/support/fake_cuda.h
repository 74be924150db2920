// Finding the fake CUDA driver (tests/support/fake_cuda), and telling it what to be.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/test_library.h"

namespace onecopy::testing {

inline std::string FakeCudaPath() { return TestLibrary("libonecopy_fake_cuda.so"); }

// What the fake driver takes for the scatter kernel's image, which is there without nvcc, too: the
// fake has the kernel's code itself.
inline const unsigned char* FakeScatterImage() {
  alignas(64) static constexpr unsigned char kMagicOfImages[] = {0x50, 0xed, 0x55, 0xba};
  return kMagicOfImages;
}

// A function of the fake's own, by its name.
template <typename Function>
Function* FakeCudaFunction(const char* name) {
  void* const library = ::dlopen(FakeCudaPath().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

// Sets an environment variable for a scope. No other thread may look at the environment meanwhile.
class ScopedEnvironment {
 public:
  ScopedEnvironment(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str()); before != nullptr) {
      before_ = std::make_unique<std::string>(before);
    }
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~ScopedEnvironment() {
    if (before_ != nullptr) {
      ::setenv(name_.c_str(), before_->c_str(), 1);
    } else {
      ::unsetenv(name_.c_str());
    }
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  const std::string name_;
  std::unique_ptr<std::string> before_;
};

}  // namespace onecopy::testing
