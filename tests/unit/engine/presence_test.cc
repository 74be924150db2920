// Which nodes that only call are awaited, until their silence says that they have gone.
#include "daemon/engine/peering/presence.h"

#include "tests/support/catch.h"

using namespace onecopy;
using onecopy::engine::Presence;

TEST_CASE("nodes that call under ever new names fill no memory") {
  os::EventLoop loop;
  Presence presence(loop, std::chrono::hours(1));
  for (size_t i = 0; i < 2 * Presence::kMost; ++i) presence.Heard("a" + std::to_string(i));
  CHECK(presence.awaited() == Presence::kMost);
  presence.Heard("a7");
  CHECK(presence.awaited() == Presence::kMost);
  // Peers, of which there are only so many, are always awaited.
  presence.Lost("west");
  CHECK(presence.awaited() == Presence::kMost + 1);
  presence.Met("west");
  presence.Met("a7");
  presence.Heard("north");
  CHECK(presence.awaited() == Presence::kMost);
  presence.Stop();
  CHECK(presence.awaited() == 0);
  CHECK(loop.timers() == 0);
}
