// Clients that misbehave harm nobody but themselves.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "onecopy/reasons.h"
#include "tests/unit/ring/thread_rig.h"
#include "transport/os/sockets/packet.h"

using namespace onecopy;
using namespace onecopy::ring;

TEST_CASE("numbers that make no sense end that ring alone") {
  Rig rig;
  const Rig::Attached one = rig.Attach();
  Shared& shared = one.client->shared();
  SECTION("too many submissions") { shared.submitted.store(uint64_t{1} << 40); }
  SECTION("completions read that are none") {
    shared.reaped.store(3);
    shared.submitted.store(1);
  }
  one.client->Wake();
  one.broken->Wait();
  while (one.client->end.state() == State::kOpen) one.client->end.Sleep(std::chrono::seconds(1));
  CHECK(one.client->end.state() == State::kBroken);
  ExpectServes(rig);
  rig.End(one.id);
}

TEST_CASE("descriptors on its socket end that ring alone, and nobody takes them") {
  Rig rig;
  const Rig::Attached one = rig.Attach();
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const os::UniqueFd reader(ends[0]);
  os::UniqueFd writer(ends[1]);
  SECTION("at once") {}
  SECTION("after bytes without any") { one.client->Wake(); }
  REQUIRE_OK(os::SendPacket(one.client->wake.get(), "x", writer.get()));
  writer.Reset();
  one.broken->Wait();
  ExpectServes(rig);
  // It lies where it was sent to.
  pollfd closed{reader.get(), POLLIN, 0};
  CHECK(::poll(&closed, 1, 0) == 0);
  rig.End(one.id);
  CHECK(::poll(&closed, 1, 20'000) == 1);
}

TEST_CASE("10,000 submissions without reading completions stop that client alone") {
  Rig rig;
  const RegionRef from = testing::HostRegion(kBuffer);
  const RegionRef to = testing::HostRegion(kBuffer);
  const Rig::Attached one = rig.Attach();
  const uint64_t word = rig.Install(one.id, 0, Rig::Between(from, to));
  Shared& shared = one.client->shared();
  // As a client does that cares for nothing but its own number, yet keeps to the ring's size.
  uint64_t submitted = 0;
  for (int tries = 0; submitted < 10'000 && tries < 100'000; ++tries) {
    if (submitted - shared.taken.load() >= kSubmissions) {
      if (shared.completed.load() == kCompletions) break;
      std::this_thread::yield();
      --tries;
      continue;
    }
    Submission& entry = shared.submissions[submitted % kSubmissions];
    entry.words[Submission::kNumber].store(submitted);
    entry.words[Submission::kRoute].store(word);
    entry.words[Submission::kFrom].store(0);
    entry.words[Submission::kTo].store(0);
    entry.words[Submission::kBytes].store(64);
    shared.submitted.store(++submitted);
    if (shared.asleep.exchange(0) != 0) one.client->Wake();
  }
  CHECK(submitted == kCompletions + kSubmissions);
  ExpectServes(rig);
  // And it goes on when it reads.
  uint64_t ended = 0;
  for (; ended < submitted; ++ended) CHECK(one.client->Next().number == ended);
}

TEST_CASE("entries that change while they are read stay inside what is allowed") {
  Rig rig;
  constexpr uint64_t kAllowed = 4096;
  const RegionRef from = testing::HostRegion(kBuffer);
  const RegionRef to = testing::HostRegion(kBuffer);
  testing::Fill({from, 0, kBuffer}, 1);
  testing::Fill({to, 0, kBuffer}, 2);
  const Rig::Attached one = rig.Attach();
  auto route = Rig::Between(from, to);
  route->from = route->to = {0, kAllowed};
  const uint64_t word = rig.Install(one.id, 0, route);
  Shared& shared = one.client->shared();
  std::atomic<bool> stop{false};
  std::thread tearing([&] {
    for (uint64_t i = 0; !stop; ++i) {
      for (Submission& entry : shared.submissions) {
        entry.words[Submission::kTo].store(i % 2 == 0 ? 0 : kBuffer - 64);
        entry.words[Submission::kBytes].store(i % 3 == 0 ? 64 : kBuffer);
        entry.words[Submission::kRoute].store(i % 5 == 0 ? i : word);
      }
    }
  });
  uint64_t succeeded = 0;
  uint64_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    one.client->Submit(word, 0, 0, 64);
    (one.client->Next().code == Code::kOk ? succeeded : refused) += 1;
  }
  stop = true;
  tearing.join();
  CHECK(succeeded + refused == 20'000);
  const Span rest{to, kAllowed, kBuffer - kAllowed};
  CHECK(testing::FirstWrong(rest, 2, kAllowed) == rest.bytes);
  ExpectServes(rig);
}

TEST_CASE("a client that floods the socket, or closes it, harms nobody else") {
  Rig rig;
  Rig::Attached one = rig.Attach();
  SECTION("floods") {
    for (int i = 0; i < 100'000; ++i) one.client->Wake();
  }
  SECTION("closes") { one.client.reset(); }
  SECTION("empties the memory") {
    REQUIRE(::madvise(one.client->mapping.data(), one.client->mapping.bytes(), MADV_REMOVE) == 0);
  }
  ExpectServes(rig);
  rig.End(one.id);
}
