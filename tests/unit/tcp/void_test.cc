// Answers that cannot be sent to their end: one get ends, and not the connection with all on it.
#include <sys/mman.h>
#include <unistd.h>

#include <future>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/link_pair.h"
#include "tests/support/memory.h"
#include "transport/link/tcp/factory.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

constexpr ChannelId kChannel = 1;
constexpr uint64_t kVoidPiece = uint64_t{4} << 20;

std::unique_ptr<Link> MakeLink(const std::string& node) {
  Backend<Link> tcp = tcp::Describe();
  BackendContext context{node, Settings(tcp.settings), {}, {}};
  context.lanes = {"127.0.0.1:0"};
  context.settings.Set("lanes", int64_t{1});
  context.settings.Set("threads", int64_t{1});
  context.settings.Set("control_threads", int64_t{0});
  // Far less than what is asked for fits into the sockets.
  context.settings.Set("socket_buffer", int64_t{65536});
  auto link = tcp.create(context);
  REQUIRE_OK(link);
  return std::move(*link);
}

// A connection of one lane, which one thread serves at either end.
struct OneLane {
  OneLane() {
    links.owner = MakeLink("owner");
    links.reader = MakeLink("reader");
    auto made = Connect(links);
    REQUIRE_OK(made);
    connected = *made;
  }
  RemoteKey Export(const RegionRef& region) const {
    auto key = connected.Export({region, 0, region->bytes()});
    REQUIRE_OK(key);
    return *key;
  }

  LinkPair links;
  Connected connected;
};

// The reader's thread does nothing else for as long as it lives.
class Busy {
 public:
  explicit Busy(Connection& connection) {
    std::promise<void> begun;
    connection.executor().Post([&, over = over_.get_future().share()] {
      begun.set_value();
      over.wait();
    });
    begun.get_future().wait();
  }
  ~Busy() { over_.set_value(); }

 private:
  std::promise<void> over_;
};

// Memory with one page that is not to be had.
class Torn {
 public:
  explicit Torn(uint64_t bytes, uint64_t missing)
      : bytes_(bytes),
        at_(static_cast<std::byte*>(
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE(at_ != MAP_FAILED);
    Fill({region(), 0, bytes}, 9);
    REQUIRE(::mprotect(at_ + missing, static_cast<size_t>(::sysconf(_SC_PAGESIZE)), PROT_NONE) ==
            0);
  }
  ~Torn() { ::munmap(at_, bytes_); }
  Torn(const Torn&) = delete;
  Torn& operator=(const Torn&) = delete;

  RegionRef region() const {
    return std::make_shared<Region>(Place{"host", {}}, at_, bytes_, true, [] {});
  }

 private:
  const uint64_t bytes_;
  std::byte* const at_;
};

}  // namespace

TEST_CASE("a withdrawal does not wait for a peer that takes nothing, and harms no neighbour") {
  OneLane lane;
  const RegionRef going = HostRegion(4 * kVoidPiece);
  const RegionRef staying = HostRegion(4 * kVoidPiece);
  Fill({going, 0, going->bytes()}, 1);
  Fill({staying, 0, staying->bytes()}, 2);
  const RemoteKey going_key = lane.Export(going);
  const RemoteKey staying_key = lane.Export(staying);
  const RegionRef first_sink = HostRegion(4 * kVoidPiece);
  const RegionRef second_sink = HostRegion(4 * kVoidPiece);
  std::vector<std::future<Got>> gone;
  std::vector<std::future<Got>> kept;
  {
    // All is asked for in one turn, before anything can come; then the reader is away.
    std::promise<void> asked;
    lane.connected.reader->executor().Post([&] {
      for (uint64_t at = 0; at < 4 * kVoidPiece; at += kVoidPiece) {
        gone.push_back(
            lane.connected.StartGet({kChannel, &going_key, at, {first_sink, at, kVoidPiece}}));
        kept.push_back(lane.connected.StartGet(
            {kChannel + 1, &staying_key, at, {second_sink, at, kVoidPiece}}));
      }
      // The questions are sent at the end of the turn.
      lane.connected.reader->executor().Post([&] { asked.set_value(); });
    });
    asked.get_future().wait();
    const Busy reader(*lane.connected.reader);
    // The bytes fill the sockets' memory, and nobody takes them.
    RevokeAndWait(*lane.connected.owner, going_key);
    CHECK(going.use_count() == 1);
    Fill({going, 0, going->bytes()}, 3);  // it is its owner's again
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    REQUIRE_OK(kept[i].get().status);
    const Span piece{second_sink, i * kVoidPiece, kVoidPiece};
    CHECK(FirstWrong(piece, 2, i * kVoidPiece) == kVoidPiece);
  }
  size_t refused = 0;
  for (size_t i = 0; i < gone.size(); ++i) {
    const Status status = gone[i].get().status;
    const Span piece{first_sink, i * kVoidPiece, kVoidPiece};
    if (status.ok()) {
      CHECK(FirstWrong(piece, 1, i * kVoidPiece) == kVoidPiece);
      continue;
    }
    CHECK(status.code() == Code::kPermissionDenied);
    ++refused;
  }
  CHECK(refused > 0);
  CHECK_FALSE(lane.connected.reader->closed());
  CHECK_FALSE(lane.connected.owner->closed());
}

TEST_CASE("a page that is missing from what is sent, or from where it goes, fails that get alone") {
  OneLane lane;
  const bool at_source = GENERATE(true, false);
  CAPTURE(at_source);
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t bytes = 256 * page;
  const Torn torn(bytes, 100 * page);
  const RegionRef whole = HostRegion(bytes);
  Fill({whole, 0, bytes}, 9);
  const RegionRef source = at_source ? torn.region() : whole;
  const RegionRef sink = at_source ? HostRegion(bytes) : torn.region();
  const RemoteKey key = lane.Export(source);
  const auto get = [&](uint64_t at, uint64_t length) {
    return lane.connected.StartGet({kChannel, &key, at, {sink, at, length}});
  };
  auto before = get(0, 50 * page);
  auto across = get(90 * page, 30 * page);
  auto after = get(200 * page, 50 * page);
  REQUIRE_OK(before.get().status);
  CHECK(across.get().status.reason() == reasons::kMemoryFault);
  REQUIRE_OK(after.get().status);
  CHECK(FirstWrong({sink, 0, 50 * page}, 9) == 50 * page);
  CHECK(FirstWrong({sink, 200 * page, 50 * page}, 9, 200 * page) == 50 * page);
  REQUIRE_OK(get(0, page).get().status);
}
