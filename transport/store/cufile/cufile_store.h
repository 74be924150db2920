// Files that drives read into memory of GPUs, and write from there, by NVIDIA's libcufile
// (GPUDirect Storage). A process of its own tries the library first; only where that went well is
// it opened here.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "transport/core/contracts/store.h"
#include "transport/store/cufile/probe.h"

namespace onecopy::cufile {

enum class Use { kAuto, kOn, kOff };

class CufileStore final : public Store {
 public:
  // Users with files open at a time.
  static constexpr size_t kMostLanes = 256;

  struct Options {
    Use use = Use::kAuto;
    unsigned threads = 16;                     // for each user
    uint64_t slice_bytes = uint64_t{4} << 20;  // whole grains
    unsigned batch = 128;                      // small pieces moved by one call; 0: by one each
    ProbeOptions probe;
  };

  // Begins to try the library, on a thread of its own.
  explicit CufileStore(Options options);
  // Files that are still open answer no more. Waits for no probe.
  ~CufileStore() override;

  // While the library is being tried: not viable, NOT_YET_KNOWN.
  StoreCapability Describe() const override;
  void OnChange(UniqueFunction<void()> changed) override;
  bool IsDirect() const override { return true; }
  // FAILED_PRECONDITION (NOT_APPLICABLE): host memory is others' business.
  void Open(OpenFileRequest request, Opened done) override;
  // Waits for the probe. Fails with the reason why the store is not viable, FILE_SYSTEM where the
  // library does not take this file, NOT_APPLICABLE without a descriptor that has O_DIRECT.
  void OpenDirect(OpenFileRequest request, OpenedDirect done) override;

  // Blocks until it is known whether the store is viable, for as long as two probes may take.
  Viability AwaitProbe() const;

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace onecopy::cufile
