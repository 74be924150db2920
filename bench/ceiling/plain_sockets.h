// The ceiling of what goes over tcp: the same bytes through the same number of sockets over
// loopback, and nothing else.
#pragma once

#include <memory>
#include <vector>

#include "bench/measure/mover.h"
#include "transport/os/mapping.h"
#include "transport/os/unique_fd.h"

namespace onecopy::bench {

// From resident memory of `bytes` into resident memory of `bytes`. Each lane is a connected socket
// with a thread at each end that moves one stripe of the payload by blocking send and recv, in
// calls of the size that is fastest: what a good programmer would write. The sockets stay connected
// between samples, as the link's do.
class PlainSockets final : public Mover {
 public:
  static Result<std::unique_ptr<Mover>> Create(uint64_t bytes, unsigned lanes);

  Status Fill(uint64_t seed) override;
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override;

 private:
  struct Lane {
    os::UniqueFd sender;
    os::UniqueFd receiver;
  };
  PlainSockets() = default;
  Status AddLane(int listener);

  os::Mapping source_;
  os::Mapping destination_;
  std::vector<Lane> lanes_;
};

}  // namespace onecopy::bench
