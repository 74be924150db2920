// GPUs of the fake driver for a daemon in this process.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "tests/support/fake_cuda.h"
#include "tests/support/served_cluster.h"
#include "transport/memory/cuda/cuda_memory.h"
#include "transport/shim/cuda.h"

namespace onecopy::testing {

inline std::string OldFakeCudaPath() { return TestLibrary("libonecopy_fake_cuda_old.so"); }

// Gives every node the GPUs that the driver in `library` has.
inline ServedCluster::Change WithGpus(const std::string& library = FakeCudaPath()) {
  return [library](const std::string& node, NodePlan& plan) {
    cuda::CudaMemory::Options options;
    options.node = node;
    plan.memories.push_back(
        std::make_unique<cuda::CudaMemory>(std::move(options), shim::LoadCuda(library)));
  };
}

}  // namespace onecopy::testing
