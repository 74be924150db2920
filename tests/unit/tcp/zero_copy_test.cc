// Sends from where the bytes lie: when they are chosen, what the kernel reports of them, and how
// long what it may read is kept.
#include "transport/link/tcp/zero_copy.h"

#include <poll.h>
#include <sys/socket.h>

#include <future>
#include <optional>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/memory.h"
#include "transport/link/tcp/factory.h"
#include "transport/os/event_loop.h"
#include "transport/os/host_port.h"

using namespace onecopy;
using namespace onecopy::tcp;
using namespace onecopy::testing;
using std::chrono::microseconds;

namespace {

constexpr uint64_t kPiece = uint64_t{1} << 20;

// The way of each send, until one is decided on, with what a piece costs either way.
void Try(SendChoice& choice, microseconds copied, microseconds left) {
  for (int i = 0; i < 1000 && choice.trying(); ++i) {
    choice.Took(choice.zero_copy(), kPiece, choice.zero_copy() ? left : copied);
  }
}

// Bytes that a peer may read, withdrawn at once, so that the end of the last reference shows.
struct Exposed {
  explicit Exposed(os::LoopThread& thread, uint64_t bytes) : exposures(thread.loop()) {
    const uint64_t key = exposures.Add({HostRegion(bytes), 0, bytes});
    Fill((*exposures.Find(key, 0, bytes))->span(), 1);
    exposure = *exposures.Find(key, 0, bytes);
    exposures.Withdraw(key, [this](uint64_t copied) { ended.set_value(copied); });
  }
  bool held() { return copied.wait_for(std::chrono::seconds(0)) != std::future_status::ready; }

  Exposures exposures;
  ExposureRef exposure;
  std::promise<uint64_t> ended;
  std::shared_future<uint64_t> copied = ended.get_future().share();
};

// Two ends of a connection over loopback; the first one's calls do not wait.
struct Sockets {
  Sockets() {
    auto listener = os::ListenTcp({"127.0.0.1", 0}, 1);
    REQUIRE_OK(listener);
    auto connecting = os::ConnectTcp(*os::LocalAddress(listener->get()));
    REQUIRE_OK(connecting);
    from = std::move(*connecting);
    Await(listener->get(), POLLIN);
    to = os::UniqueFd(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    REQUIRE(to);
    Await(from.get(), POLLOUT);
  }
  static void Await(int fd, short events) {
    pollfd wait{fd, events, 0};
    REQUIRE(::poll(&wait, 1, 10'000) == 1);
  }
  os::UniqueFd from;
  os::UniqueFd to;
};

// A connection that sends from where its piece lies.
struct Sending {
  Sending() { REQUIRE(zero_copy.Open(sockets.from.get())); }
  ssize_t Send(uint64_t bytes) {
    return zero_copy.Send(sockets.from.get(), exposed.exposure, exposed.exposure->span().address(),
                          bytes);
  }

  os::LoopThread thread{"home"};
  Sockets sockets;
  ZeroCopy zero_copy{ZeroCopyUse::kMeasured};
  Exposed exposed{thread, kPiece};
};

}  // namespace

TEST_CASE("both ways are tried in turn, and what costs the processor less stays") {
  SendChoice cheap(ZeroCopyUse::kMeasured);
  Try(cheap, microseconds(100), microseconds(50));
  CHECK_FALSE(cheap.trying());
  CHECK(cheap.zero_copy());

  SendChoice dear(ZeroCopyUse::kMeasured);
  Try(dear, microseconds(100), microseconds(150));
  CHECK_FALSE(dear.trying());
  CHECK_FALSE(dear.zero_copy());

  SendChoice same(ZeroCopyUse::kMeasured);  // what is hardly better decides nothing
  Try(same, microseconds(100), microseconds(95));
  CHECK_FALSE(same.zero_copy());
}

TEST_CASE("time that reports take counts against sends that they are about") {
  SendChoice choice(ZeroCopyUse::kMeasured);
  while (choice.trying()) {
    const bool left = choice.zero_copy();
    choice.Took(left, kPiece, microseconds(left ? 50 : 100));
    if (left) choice.Took(true, 0, microseconds(60));
  }
  CHECK_FALSE(choice.zero_copy());
}

TEST_CASE("what cannot be is not tried again") {
  SendChoice choice(ZeroCopyUse::kMeasured);
  choice.GiveUp();
  CHECK_FALSE(choice.zero_copy());
  choice.Took(false, uint64_t{1} << 40, microseconds(1));
  CHECK_FALSE(choice.zero_copy());
}

TEST_CASE("without measuring, bytes are left where they lie until that turns out not to be") {
  SendChoice choice(ZeroCopyUse::kAlways);
  CHECK_FALSE(choice.trying());
  CHECK(choice.zero_copy());
  choice.GiveUp();
  CHECK_FALSE(choice.zero_copy());
}

TEST_CASE("over loopback the kernel copies all the same: each byte is counted, once") {
  os::LoopThread thread("home");
  Sockets sockets;
  ZeroCopy zero_copy(ZeroCopyUse::kMeasured);
  REQUIRE(zero_copy.Open(sockets.from.get()));
  // More than fits into the sockets, and a part of what an ordinary user may have pinned (8 MiB).
  constexpr uint64_t kBytes = 4 * kPiece + 4321;
  Exposed exposed(thread, kBytes);

  std::vector<std::byte> arrived(kBytes);
  std::future<bool> receiving = std::async(std::launch::async, [&] {
    return ::recv(sockets.to.get(), arrived.data(), kBytes, MSG_WAITALL) ==
           static_cast<ssize_t>(kBytes);
  });
  bool reported = false;
  for (uint64_t at = 0; at < kBytes;) {
    const ssize_t sent = zero_copy.Send(sockets.from.get(), exposed.exposure,
                                        exposed.exposure->span().address() + at, kBytes - at);
    if (sent > 0) at += static_cast<uint64_t>(sent);
    reported |= zero_copy.under_way() > 0;
    if (sent < 0) REQUIRE(errno == EAGAIN);
    Sockets::Await(sockets.from.get(), POLLOUT);
    zero_copy.TakeReports(sockets.from.get());
  }
  CHECK(reported);  // the first went so
  CHECK(receiving.get());
  while (zero_copy.under_way() > 0) {
    Sockets::Await(sockets.from.get(), 0);  // reports show as POLLERR
    zero_copy.TakeReports(sockets.from.get());
  }
  CHECK_FALSE(zero_copy.choice().zero_copy());
  for (uint64_t i = 0; i < kBytes; ++i) REQUIRE(arrived[i] == PatternAt(i, 1));
  CHECK(exposed.held());
  exposed.exposure.reset();
  CHECK(exposed.copied.get() == kBytes);
}

TEST_CASE("bytes are kept until the kernel has reported on every send of them") {
  Sending with;
  // Small enough for the socket to take at once; what the kernel itself says of them is not read.
  constexpr uint64_t kSend = 16 << 10;
  uint64_t copied = 0;
  uint32_t left = 0;
  while (left < 4) {
    const bool so = with.zero_copy.choice().zero_copy();
    REQUIRE(with.Send(kSend) == kSend);
    so ? static_cast<void>(++left) : static_cast<void>(copied += kSend);
  }
  with.exposed.exposure.reset();
  REQUIRE(with.zero_copy.under_way() == 4);
  with.zero_copy.Reported(2, 3, false);  // out of order
  CHECK(with.zero_copy.under_way() == 4);
  with.zero_copy.Reported(0, 0, false);
  CHECK(with.zero_copy.under_way() == 3);
  with.zero_copy.Reported(0, 0, true);  // again, and of what was never sent: nothing changes
  with.zero_copy.Reported(7, 4'000'000'000, true);
  CHECK(with.zero_copy.under_way() == 3);
  CHECK(with.exposed.held());
  with.zero_copy.Reported(1, 1, true);
  CHECK(with.zero_copy.under_way() == 0);
  CHECK(with.exposed.copied.get() == copied + kSend);
  CHECK_FALSE(with.zero_copy.choice().zero_copy());
}

TEST_CASE("a closed socket keeps nothing") {
  Sending with;
  REQUIRE(with.Send(ZeroCopy::kLeastBytes) == ZeroCopy::kLeastBytes);
  with.exposed.exposure.reset();
  CHECK(with.zero_copy.under_way() == 1);
  CHECK(with.exposed.held());
  with.zero_copy.Forget();
  CHECK(with.exposed.copied.get() == 0);
}

TEST_CASE("a setting that means nothing is refused, with what there is") {
  Backend<Link> backend = Describe();
  BackendContext context{"here", Settings(backend.settings), {}, {}};
  context.lanes = "127.0.0.1:0";
  context.settings.Set("zero_copy", std::string("on"));
  const auto link = backend.create(context);
  REQUIRE_FALSE(link.ok());
  CHECK(link.status().code() == Code::kInvalidArgument);
  CHECK(link.status().ToString().find("[tcp] zero_copy is \"on\"") != std::string::npos);
  CHECK(link.status().ToString().find("\"measured\"") != std::string::npos);
}
