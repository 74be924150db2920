// The ceiling of several things at once: the slowest of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/measure/mover.h"

namespace onecopy::bench {

// Runs its parts one after the other, each alone, and took as long as the slowest did. Its CPU time
// is that of all parts that tell one. What each took is the detail NAME_seconds. One thread at a
// time.
class SlowerOf final : public Mover {
 public:
  struct Part {
    std::string name;
    std::unique_ptr<Mover> mover;
  };
  explicit SlowerOf(std::vector<Part> parts) : parts_(std::move(parts)) {}

  Status Fill(uint64_t seed) override;
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override;

 private:
  std::vector<Part> parts_;
};

}  // namespace onecopy::bench
