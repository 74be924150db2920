// The ceiling of copies between host memories.
#pragma once

#include <memory>

#include "bench/measure/mover.h"
#include "transport/os/mapping.h"

namespace onecopy::bench {

// memcpy from resident memory of `bytes` into resident memory of `bytes`, one stripe a thread; of
// little, all by the calling one.
class PlainMemcpy final : public Mover {
 public:
  static Result<std::unique_ptr<Mover>> Create(uint64_t bytes, unsigned threads);

  Status Fill(uint64_t seed) override;
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override;

 private:
  explicit PlainMemcpy(unsigned threads) : threads_(threads) {}

  const unsigned threads_;
  os::Mapping source_;
  os::Mapping destination_;
};

}  // namespace onecopy::bench
