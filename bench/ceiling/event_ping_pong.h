// Small pieces over one connection of loopback by either event engine.
#pragma once

#include <memory>
#include <optional>

#include "bench/ceiling/loopback.h"
#include "bench/ceiling/many.h"
#include "bench/ceiling/ring.h"
#include "bench/measure/mover.h"
#include "transport/os/mapping.h"

namespace onecopy::bench {

// What TcpPingPong does by blocking calls, by event loops: 16 bytes ask for each piece, a thread at
// the far end answers. `ring` absent: epoll. Its seconds and CPU seconds are of one piece.
class EventPingPong final : public Mover {
 public:
  // Fails as Ring::Create does.
  static Result<std::unique_ptr<Mover>> Create(const Many& many,
                                               const std::optional<RingWay>& ring);

  Status Fill(uint64_t seed) override;
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override;

 private:
  EventPingPong(const Many& many, const std::optional<RingWay>& ring) : many_(many), ring_(ring) {}

  const Many many_;
  const std::optional<RingWay> ring_;
  os::Mapping source_;
  os::Mapping destination_;
  SocketPair ends_;
};

}  // namespace onecopy::bench
