// The ceiling of small transfers between nodes: a bare TCP connection over loopback.
#pragma once

#include <memory>
#include <thread>

#include "bench/ceiling/many.h"
#include "bench/measure/mover.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::bench {

// Asks for each piece by 16 bytes, and a thread at the far end answers with the piece: blocking
// calls, TCP_NODELAY, `depth` questions under way. One thread at a time.
class TcpPingPong final : public Mover {
 public:
  static Result<std::unique_ptr<Mover>> Create(const Many& many);
  ~TcpPingPong() override;

  Status Fill(uint64_t seed) override;
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override;

 private:
  explicit TcpPingPong(const Many& many) : many_(many) {}
  Status Begin();
  void Answer();
  Status Ask(uint64_t offset);
  Status Receive(uint64_t offset);

  const Many many_;
  os::Mapping source_;
  os::Mapping destination_;
  os::UniqueFd here_;
  os::UniqueFd there_;
  std::thread far_end_;
};

}  // namespace onecopy::bench
