// The thread that serves rings, with clients whose memory is this process's.
#pragma once

#include "daemon/ring/ring_thread.h"
#include "tests/support/event.h"
#include "tests/support/memory.h"
#include "tests/unit/ring/rig.h"
#include "transport/memory/host/small_copy_route.h"

namespace onecopy::ring {

using testing::Event;

inline constexpr uint64_t kBuffer = 128 * 1024;
class Rig {
 public:
  RingThread& thread() { return thread_; }

  struct Attached {
    RingThread::RingId id;
    std::shared_ptr<Journal> journal;
    std::unique_ptr<Client> client;
    std::shared_ptr<Event> broken;
  };
  Attached Attach() {
    auto end = DaemonEnd::Make();
    REQUIRE_OK(end);
    auto [here, there] = Sockets();
    Attached attached{++last_, std::make_shared<Journal>(),
                      std::make_unique<Client>(*end, std::move(there)), std::make_shared<Event>()};
    thread_.Add(attached.id, std::move(*end), std::move(here), attached.journal,
                [broken = attached.broken] { broken->Set(); });
    return attached;
  }
  // The word that names the route.
  uint64_t Install(RingThread::RingId ring, uint32_t place, std::shared_ptr<Route> route) {
    route->serial = ++last_;
    Event installed;
    thread_.Install(ring, place, route, [&] { installed.Set(); });
    installed.Wait();
    return RouteWord(route->serial, place);
  }
  static std::shared_ptr<Route> Between(const RegionRef& from, const RegionRef& to) {
    auto route = std::make_shared<Route>();
    route->way = std::make_shared<host::HostSmallCopyRoute>("east", from, to);
    route->from = {0, from->bytes()};
    route->to = {0, to->bytes()};
    route->one_memory = from == to;
    return route;
  }
  void Remove(RingThread::RingId ring, uint32_t place) {
    Event removed;
    thread_.Remove(ring, place, [&] { removed.Set(); });
    removed.Wait();
  }
  void End(RingThread::RingId ring) {
    Event ended;
    thread_.End(ring, [&] { ended.Set(); });
    ended.Wait();
  }

 private:
  uint64_t last_ = 0;
  RingThread thread_{std::chrono::microseconds(50)};
};

inline void ExpectRefusal(const Ended& ended, Code code, std::string_view reason) {
  CHECK(ended.code == code);
  CHECK(ended.reason == std::string(reason));
  CHECK(ended.nanoseconds == 0);
}

// That another client is still served.
// That another client is still served.
inline void ExpectServes(Rig& rig) {
  const RegionRef from = testing::HostRegion(kBuffer);
  const RegionRef to = testing::HostRegion(kBuffer);
  testing::Fill({from, 0, kBuffer}, 7);
  const Rig::Attached other = rig.Attach();
  const uint64_t word = rig.Install(other.id, 3, Rig::Between(from, to));
  for (uint64_t i = 0; i < 32; ++i) other.client->Submit(word, i * 4096, i * 4096, 4096);
  for (uint64_t i = 0; i < 32; ++i) CHECK(other.client->Next().code == Code::kOk);
  CHECK(testing::FirstWrong({to, 0, kBuffer}, 7) == kBuffer);
  rig.End(other.id);
}

}  // namespace onecopy::ring
