// The scatter kernel in one GPU's context, and the lists that it reads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/memory/cuda/loaded_kernel.h"
#include "transport/memory/cuda/scatter_tile.h"
#include "transport/shim/cuda.h"

namespace onecopy::cuda {

// See LoadedKernel.
const unsigned char* ScatterImage();

// One thread at a time, with the GPU's context current; the context must be open throughout.
class ScatterKernel {
 public:
  explicit ScatterKernel(Gpu& gpu);
  ~ScatterKernel();  // nothing may be under way
  ScatterKernel(const ScatterKernel&) = delete;
  ScatterKernel& operator=(const ScatterKernel&) = delete;

  // Whether it can be launched here, which the first call finds out. `over_pcie`: on host memory.
  bool Works(bool over_pcie);

  // A list that a launch reads, in pinned memory; given back when the work has ended.
  struct List {
    ScatterTile* tiles = nullptr;
    size_t room = 0;
  };
  // Makes lists of so much room each in advance: a launch that finds one does not allocate.
  CUresult Reserve(size_t lists, size_t tiles);
  bool HasIdle() const { return !idle_.empty(); }
  void GiveBack(const List& list) { idle_.push_back(list); }

  // Launches it for these tiles, at least one. `list` is the caller's from then on, also where the
  // launch fails.
  CUresult Launch(std::span<const ScatterTile> tiles, CUstream stream, List* list);

 private:
  // What there is to know of this GPU.
  CUresult Learn();
  CUresult Make(size_t tiles, List* list);
  CUresult Take(size_t tiles, List* list);

  Gpu& gpu_;
  LoadedKernel kernel_;
  bool tried_ = false;
  bool works_ = false;
  bool reaches_host_ = false;
  unsigned most_blocks_ = 0;
  std::vector<List> all_;
  std::vector<List> idle_;
};

}  // namespace onecopy::cuda
