// The kernel that sums leaves, in one GPU's context, and the memory for its results.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/memory/cuda/leaf_sum.h"
#include "transport/memory/cuda/loaded_kernel.h"
#include "transport/shim/cuda.h"

namespace onecopy::cuda {

// See LoadedKernel.
const unsigned char* LeafSumImage();

// One thread at a time, with the GPU's context current; the context must be open throughout.
class LeafSums {
 public:
  static constexpr uint32_t kMostLeaves = 1024;  // of one launch

  explicit LeafSums(Gpu& gpu);
  ~LeafSums();  // nothing may be under way
  LeafSums(const LeafSums&) = delete;
  LeafSums& operator=(const LeafSums&) = delete;

  // Whether it can be launched here.
  bool Works() { return kernel_.Get() != nullptr; }
  // Pinned memory for the sums of one launch; given back when that has ended.
  CUresult Take(SumDigest** sums);
  void GiveBack(SumDigest* sums) { idle_.push_back(sums); }
  // Sums consecutive leaves. `first` must be a multiple of kSummedAlignment.
  CUresult Launch(CUdeviceptr first, uint32_t leaves, SumDigest* sums, CUstream stream);

 private:
  Gpu& gpu_;
  LoadedKernel kernel_;
  std::vector<SumDigest*> all_;
  std::vector<SumDigest*> idle_;
};

}  // namespace onecopy::cuda
