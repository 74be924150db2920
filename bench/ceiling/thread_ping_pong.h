// The ceiling of small transfers inside a node between host memories: another thread copies.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "bench/ceiling/many.h"
#include "bench/measure/mover.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::bench {

// One thread says how many pieces it wants, another copies them and says how many it has; both look
// without ever sleeping while a sample is taken. One thread at a time.
class ThreadPingPong final : public Mover {
 public:
  static Result<std::unique_ptr<Mover>> Create(const Many& many);

  Status Fill(uint64_t seed) override;
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override;

 private:
  explicit ThreadPingPong(const Many& many) : many_(many) {}
  void Copy();
  void AwaitCopied(uint64_t count) const;

  const Many many_;
  os::Mapping source_;
  os::Mapping destination_;
  alignas(64) std::atomic<uint64_t> wanted_{0};
  alignas(64) std::atomic<uint64_t> copied_{0};
};

}  // namespace onecopy::bench
