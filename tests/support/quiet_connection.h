// A connection without a wire, for tests: all but its gets and what it sends.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "transport/core/toolkit/link_connection.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::testing {

// Has one lane, lends nothing, and never answers what is asked of it. `Self` provides what
// LinkConnection asks for: StartGet and the others.
template <typename Self>
class QuietConnection : public LinkConnection<Self, os::EventLoop> {
 public:
  QuietConnection(os::EventLoop& loop, const char* link, std::string peer)
      : LinkConnection<Self, os::EventLoop>(loop, link, std::move(peer)) {}

  const std::vector<LaneInfo>& lanes() const override { return lanes_; }
  LinkAccess Access(const RemoteKey&, const Region&) const override { return {}; }
  unsigned depth() const override { return 8; }
  uint64_t chunk_bytes() const override { return 1 << 20; }
  void Export(const Span&, UniqueFunction<void(Result<RemoteKey>)>) override {}
  void Revoke(const RemoteKey&, Task) override {}
  void Lend(const Span&, UniqueFunction<void(Result<RemoteKey>)>) override {}
  void EndLoan(const RemoteKey&, Task) override {}
  void Release(const RemoteKey&) override {}
  void Evidence(UniqueFunction<void(std::vector<std::pair<std::string, uint64_t>>)>) override {}

 private:
  const std::vector<LaneInfo> lanes_ = {{}};
};

}  // namespace onecopy::testing
