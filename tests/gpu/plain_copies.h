// Copies between GPUs as a plain program makes them, and daemons' transfers held against them.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "tests/gpu/users.h"

namespace onecopy::testing {

// Plain copies from the first GPU to the second, of memory that this process has allocated there.
class PlainCopies {
 public:
  static constexpr uint64_t kMostOffset = uint64_t{2} << 20;

  explicit PlainCopies(uint64_t most_bytes) : api_(**TheDriver()) {
    for (int i = 0; i < 2; ++i) {
      REQUIRE(api_.DeviceGet(&devices_[i], i) == CUDA_SUCCESS);
      REQUIRE(api_.DevicePrimaryCtxRetain(&contexts_[i], devices_[i]) == CUDA_SUCCESS);
      const shim::ScopedCudaContext scope(api_, contexts_[i]);
      REQUIRE(api_.MemAlloc(&memory_[i], most_bytes + kMostOffset) == CUDA_SUCCESS);
    }
    const shim::ScopedCudaContext scope(api_, contexts_[0]);
    REQUIRE(api_.CtxEnablePeerAccess(contexts_[1], 0) == CUDA_SUCCESS);
    REQUIRE(api_.StreamCreate(&stream_, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    host_.resize(most_bytes);
    REQUIRE(api_.MemHostRegister(host_.data(), most_bytes, CU_MEMHOSTREGISTER_PORTABLE) ==
            CUDA_SUCCESS);
  }
  ~PlainCopies() {
    {
      const shim::ScopedCudaContext scope(api_, contexts_[0]);
      api_.MemHostUnregister(host_.data());
      api_.StreamDestroy(stream_);
    }
    for (int i = 0; i < 2; ++i) {
      {
        const shim::ScopedCudaContext scope(api_, contexts_[i]);
        api_.MemFree(memory_[i]);
      }
      api_.DevicePrimaryCtxRelease(devices_[i]);
    }
  }
  PlainCopies(const PlainCopies&) = delete;
  PlainCopies& operator=(const PlainCopies&) = delete;

  // Seconds of one copy from GPU to GPU, and of one to pinned host memory. Where the copy begins
  // and ends counts: an engine writes to an odd address more slowly.
  double Peer(uint64_t bytes, uint64_t from = 0, uint64_t to = 0) {
    return Time(
        [&] { return api_.MemcpyDtoDAsync(memory_[1] + to, memory_[0] + from, bytes, stream_); });
  }
  double ToHost(uint64_t bytes) {
    return Time([&] { return api_.MemcpyDtoHAsync(host_.data(), memory_[0], bytes, stream_); });
  }
  // Of a byte that the compute engine writes.
  double Kernel() {
    return Time([&] { return api_.MemsetD8Async(memory_[0], 0, 1, stream_); });
  }

 private:
  template <typename Submit>
  double Time(const Submit& submit) {
    const shim::ScopedCudaContext scope(api_, contexts_[0]);
    // As a daemon's, whose driver has been woken by the time that it copies.
    REQUIRE(api_.MemcpyDtoDAsync(memory_[1], memory_[0], 16, stream_) == CUDA_SUCCESS);
    REQUIRE(api_.StreamSynchronize(stream_) == CUDA_SUCCESS);
    const auto begin = std::chrono::steady_clock::now();
    REQUIRE(submit() == CUDA_SUCCESS);
    REQUIRE(api_.StreamSynchronize(stream_) == CUDA_SUCCESS);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  const shim::CudaApi& api_;
  CUdevice devices_[2] = {};
  CUcontext contexts_[2] = {};
  CUdeviceptr memory_[2] = {};
  CUstream stream_ = nullptr;
  std::vector<char> host_;
};

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The daemon's rate by that of the plain copy, by the medians of as many of both, taken in turns.
struct Ratio {
  double ours_gb = 0;
  double plain_gb = 0;
  double value() const { return ours_gb / plain_gb; }
};
template <typename Plain>
Ratio Compare(const Node& node, const std::vector<std::string>& command, uint64_t bytes,
              const std::string& path, int rounds, const Plain& plain) {
  std::vector<double> ours;
  std::vector<double> theirs;
  node.Do(command);  // the first transfer opens, proves, registers
  for (int i = 0; i < rounds; ++i) {
    const Json receipt = node.Do(command);
    CHECK(receipt.at("path") == path);
    ours.push_back(receipt.at("seconds").get<double>());
    theirs.push_back(plain());
  }
  const auto rate = [&](const std::vector<double>& seconds) {
    return static_cast<double>(bytes) / Median(seconds) / 1e9;
  };
  return {rate(ours), rate(theirs)};
}

}  // namespace onecopy::testing
