// Real GPUs for tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "onecopy/result.h"
#include "tests/support/catch.h"
#include "transport/memory/cuda/cuda_memory.h"
#include "transport/shim/cuda.h"

namespace onecopy::testing {

using Driver = std::shared_ptr<const shim::CudaApi>;

// The driver, loaded once a program.
inline const Result<Driver>& TheDriver() {
  static const Result<Driver> driver = [] {
    shim::UsePciBusOrder();
    return shim::LoadCuda();
  }();
  return driver;
}

// Empty where `least` GPUs are there; else why not.
inline std::string WhyFewerGpus(size_t least) {
  if (!TheDriver().ok()) return TheDriver().status().ToString();
  int count = 0;
  (*TheDriver())->DeviceGetCount(&count);
  if (static_cast<size_t>(count) >= least) return {};
  return "needs " + std::to_string(least) + " GPUs, there is " + std::to_string(count);
}

inline std::unique_ptr<cuda::CudaMemory> RealMemory() {
  return std::make_unique<cuda::CudaMemory>(cuda::CudaMemory::Options{"test", {}}, TheDriver());
}

}  // namespace onecopy::testing

// At the start of a test case: skips it where fewer GPUs are there.
#define ONECOPY_NEEDS_GPUS(least)                        \
  if (!onecopy::testing::WhyFewerGpus(least).empty()) {  \
    ONECOPY_SKIP(onecopy::testing::WhyFewerGpus(least)); \
  }
