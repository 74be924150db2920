// The ceiling of copies between host memories.
#pragma once

#include <memory>

#include "bench/measure/mover.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::bench {

// memcpy from resident memory of `bytes` into resident memory of `bytes`, one stripe a thread; of
// little, all by the calling one.
class PlainMemcpy final : public Mover {
 public:
  // `touched`: whether Fill writes to the destination as well, so that the way to its pages is in
  // the caches when the copy begins; that can treble the rate of a virtual machine.
  static Result<std::unique_ptr<Mover>> Create(uint64_t bytes, unsigned threads,
                                               bool touched = false);

  Status Fill(uint64_t seed) override;
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override;

 private:
  PlainMemcpy(unsigned threads, bool touched) : threads_(threads), touched_(touched) {}

  const unsigned threads_;
  const bool touched_;
  os::Mapping source_;
  os::Mapping destination_;
};

}  // namespace onecopy::bench
