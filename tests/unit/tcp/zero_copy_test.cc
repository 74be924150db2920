// Sends from where the bytes lie: when they are chosen, what the kernel reports of them, and how
// long what it may read is kept.
#include "transport/link/tcp/zero_copy.h"

#include <poll.h>
#include <sys/socket.h>

#include <future>
#include <map>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/link_pair.h"
#include "tests/support/memory.h"
#include "transport/link/tcp/factory.h"
#include "transport/os/sockets/host_port.h"
#include "transport/os/threads/event_loop.h"

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
struct Exported {
  explicit Exported(os::LoopThread& thread, uint64_t bytes) : exports(thread.loop()) {
    const uint64_t key = exports.Add({HostRegion(bytes), 0, bytes});
    Fill((*exports.Find(key, 0, bytes))->span(), 1);
    ref = *exports.Find(key, 0, bytes);
    exports.Revoke(key, [this] { ended.set_value(); });
  }
  bool held() { return idle.wait_for(std::chrono::seconds(0)) != std::future_status::ready; }

  Exports exports;
  ExportRef ref;
  std::promise<void> ended;
  std::shared_future<void> idle = ended.get_future().share();
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

// A socket on which one body after the other is begun, each of one send that it takes at once.
struct Sending {
  static constexpr uint64_t kBody = uint64_t{16} << 10;

  Sending() { REQUIRE(zero_copy.Open(sockets.from.get())); }
  // Whether it was left where it lies.
  bool Send(uint64_t tag) {
    const bool left = zero_copy.Begin(tag, exported.ref, kBody);
    REQUIRE(zero_copy.sending());
    REQUIRE(zero_copy.Send(sockets.from.get(), exported.ref->span().address(), kBody) == kBody);
    CHECK_FALSE(zero_copy.sending());
    return left;
  }
  std::map<uint64_t, bool> Finished() {
    std::map<uint64_t, bool> reports;
    for (const auto& report : zero_copy.TakeFinished()) reports[report.tag] = report.copied;
    return reports;
  }

  os::LoopThread thread{"home"};
  Sockets sockets;
  ZeroCopy zero_copy{ZeroCopyUse::kMeasured};
  Exported exported{thread, kPiece};
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

TEST_CASE("over loopback the kernel copies all the same, and the body's one report says so") {
  os::LoopThread thread("home");
  Sockets sockets;
  ZeroCopy zero_copy(ZeroCopyUse::kMeasured);
  REQUIRE(zero_copy.Open(sockets.from.get()));
  REQUIRE(zero_copy.wanted());
  // More than fits into the sockets, and a part of what an ordinary user may have pinned (8 MiB).
  constexpr uint64_t kBytes = 4 * kPiece + 4321;
  Exported exported(thread, kBytes);

  std::vector<std::byte> arrived(kBytes);
  std::future<bool> receiving = std::async(std::launch::async, [&] {
    return ::recv(sockets.to.get(), arrived.data(), kBytes, MSG_WAITALL) ==
           static_cast<ssize_t>(kBytes);
  });
  REQUIRE(zero_copy.Begin(5, exported.ref, kBytes));
  for (uint64_t at = 0; at < kBytes;) {
    const ssize_t sent =
        zero_copy.Send(sockets.from.get(), exported.ref->span().address() + at, kBytes - at);
    if (sent > 0) at += static_cast<uint64_t>(sent);
    if (sent < 0) REQUIRE(errno == EAGAIN);
    Sockets::Await(sockets.from.get(), POLLOUT);
    zero_copy.TakeReports(sockets.from.get());
  }
  CHECK(receiving.get());
  while (zero_copy.under_way() > 0) {
    Sockets::Await(sockets.from.get(), 0);  // reports show as POLLERR
    zero_copy.TakeReports(sockets.from.get());
  }
  const auto finished = zero_copy.TakeFinished();
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].tag == 5);
  CHECK(finished[0].copied);
  CHECK_FALSE(zero_copy.wanted());
  REQUIRE(FirstWrong(arrived.data(), kBytes, 1) == kBytes);
  CHECK(exported.held());
  exported.ref.reset();
  exported.idle.get();
}

TEST_CASE("bytes are kept until the kernel has reported on every send of them") {
  Sending with;
  // What the kernel itself says of them is not read.
  uint64_t tag = 0;
  std::vector<uint64_t> left;
  while (left.size() < 4) {
    if (with.Send(++tag)) left.push_back(tag);
  }
  CHECK(with.Finished().empty());  // of those that were copied nothing is due
  with.exported.ref.reset();
  REQUIRE(with.zero_copy.under_way() == 4);
  with.zero_copy.Reported(2, 3, false);  // out of order
  CHECK(with.zero_copy.under_way() == 4);
  CHECK(with.Finished() == std::map<uint64_t, bool>{{left[2], false}, {left[3], false}});
  with.zero_copy.Reported(0, 0, false);
  CHECK(with.zero_copy.under_way() == 3);
  with.zero_copy.Reported(0, 0, true);  // again, and of what was never sent: nothing changes
  with.zero_copy.Reported(7, 4'000'000'000, true);
  CHECK(with.zero_copy.under_way() == 3);
  CHECK(with.exported.held());
  CHECK(with.Finished() == std::map<uint64_t, bool>{{left[0], false}});
  with.zero_copy.Reported(1, 1, true);
  CHECK(with.zero_copy.under_way() == 0);
  CHECK(with.Finished() == std::map<uint64_t, bool>{{left[1], true}});
  with.exported.idle.get();
  CHECK_FALSE(with.zero_copy.wanted());
}

TEST_CASE("a body that is given up is kept while the kernel may read it, and nothing is due") {
  Sending with;
  REQUIRE(with.zero_copy.Begin(1, with.exported.ref, 2 * Sending::kBody));
  REQUIRE(with.zero_copy.Send(with.sockets.from.get(), with.exported.ref->span().address(),
                              Sending::kBody) == Sending::kBody);
  with.exported.ref.reset();
  with.zero_copy.Abandon();
  CHECK_FALSE(with.zero_copy.sending());
  with.zero_copy.Abandon();
  CHECK(with.exported.held());
  with.zero_copy.Reported(0, 0, false);
  with.exported.idle.get();
  CHECK(with.Finished().empty());
}

TEST_CASE("a closed socket keeps nothing") {
  Sending with;
  REQUIRE(with.Send(1));
  with.exported.ref.reset();
  CHECK(with.zero_copy.under_way() == 1);
  CHECK(with.exported.held());
  with.zero_copy.Forget();
  with.exported.idle.get();
}

TEST_CASE("a get says what its owner's kernel did, also where that is known only after its end") {
  const auto make = [](const std::string& node) {
    Backend<Link> backend = Describe();
    BackendContext context{node, Settings(backend.settings), {}, {}};
    context.lanes = {"127.0.0.1:0"};
    context.settings.Set("lanes", int64_t{2});
    context.settings.Set("zero_copy", std::string("always"));
    auto link = backend.create(context);
    REQUIRE_OK(link);
    return std::move(*link);
  };
  LinkPair links{make("owner"), make("reader")};
  const auto connected = Connect(links);
  REQUIRE_OK(connected);
  constexpr uint64_t kGets = 16;
  const RegionRef from = HostRegion(kGets * kPiece);
  const RegionRef into = HostRegion(kGets * kPiece);
  Fill({from, 0, kGets * kPiece}, 3);
  const auto key = connected->Export({from, 0, kGets * kPiece});
  REQUIRE_OK(key);
  std::vector<std::future<Got>> gets;
  for (uint64_t i = 0; i < kGets; ++i) {
    gets.push_back(connected->StartGet({.channel = 1,
                                        .key = &*key,
                                        .key_offset = i * kPiece,
                                        .into = {into, i * kPiece, kPiece}}));
  }
  for (auto& get : gets) {
    const Got got = get.get();
    REQUIRE_OK(got.status);
    REQUIRE(got.steps->size() == 3);  // over loopback it copies
    CHECK(got.steps->front().node == "owner");
  }
  CHECK(FirstWrong({into, 0, kGets * kPiece}, 3) == kGets * kPiece);
  RevokeAndWait(*connected->owner, *key);
}

TEST_CASE("a setting that means nothing is refused, with what there is") {
  Backend<Link> backend = Describe();
  BackendContext context{"here", Settings(backend.settings), {}, {}};
  context.lanes = {"127.0.0.1:0"};
  context.settings.Set("zero_copy", std::string("on"));
  const auto link = backend.create(context);
  REQUIRE_FALSE(link.ok());
  CHECK(link.status().code() == Code::kInvalidArgument);
  CHECK(link.status().ToString().find("[tcp] zero_copy is \"on\"") != std::string::npos);
  CHECK(link.status().ToString().find("\"measured\"") != std::string::npos);
}
