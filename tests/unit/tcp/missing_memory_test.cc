// Memory of which a page is gone when the kernel is to send from it or receive into it: the get
// that needs it fails, and nothing else on the lane.
#include <future>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/link_pair.h"
#include "tests/support/memory.h"
#include "tests/support/torn_memory.h"
#include "transport/link/tcp/factory.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kBytes = uint64_t{1} << 20;
constexpr uint64_t kKept = uint64_t{64} << 10;

Result<std::unique_ptr<Link>> MakeTcp(const std::string& node, const std::string& zero_copy) {
  Backend<Link> tcp = tcp::Describe();
  BackendContext context{node, Settings(tcp.settings), {}, {}};
  context.lanes = {"127.0.0.1:0"};
  context.settings.Set("lanes", int64_t{1});
  context.settings.Set("threads", int64_t{1});
  context.settings.Set("zero_copy", zero_copy);
  return tcp.create(context);
}

struct Rig {
  LinkPair links;
  Connected connected;
  RegionRef good = HostRegion(kBytes);

  explicit Rig(const std::string& zero_copy) {
    auto owner = MakeTcp("owner", zero_copy);
    auto reader = MakeTcp("reader", zero_copy);
    REQUIRE_OK(owner);
    REQUIRE_OK(reader);
    links.owner = std::move(*owner);
    links.reader = std::move(*reader);
    auto made = Connect(links);
    REQUIRE_OK(made);
    connected = std::move(*made);
    Fill({good, 0, kBytes}, 7);
  }
  RemoteKey Export(const RegionRef& region) {
    auto key = connected.Export({region, 0, region->bytes()});
    REQUIRE_OK(key);
    return *key;
  }
  std::future<Got> Get(const RemoteKey& key, const RegionRef& into) {
    return connected.StartGet(
        {.channel = 1, .key = &key, .key_offset = 0, .into = {into, 0, into->bytes()}, .lane = 0});
  }
};

}  // namespace

TEST_CASE("a get into memory of which pages are gone fails, and its neighbours do not") {
  const std::string zero_copy = GENERATE("off", "always");
  CAPTURE(zero_copy);
  Rig rig(zero_copy);
  const RemoteKey key = rig.Export(rig.good);
  std::vector<std::future<Got>> bad;
  std::vector<std::future<Got>> good;
  std::vector<RegionRef> into;
  for (int i = 0; i < 8; ++i) {
    into.push_back(HostRegion(kBytes));
    good.push_back(rig.Get(key, into.back()));
    bad.push_back(rig.Get(key, TornRegion(kBytes, kKept, false)));
  }
  for (auto& get : bad) {
    const Status ended = get.get().status;
    CHECK(ended.code() == Code::kAborted);
    CHECK(ended.reason() == reasons::kMemoryFault);
  }
  for (size_t i = 0; i < good.size(); ++i) {
    REQUIRE_OK(good[i].get().status);
    CHECK(FirstWrong({into[i], 0, kBytes}, 7) == kBytes);
  }
}

TEST_CASE("a get from memory of which pages are gone fails, and its neighbours do not") {
  const std::string zero_copy = GENERATE("off", "always");
  CAPTURE(zero_copy);
  Rig rig(zero_copy);
  const RemoteKey key = rig.Export(rig.good);
  const RemoteKey torn = rig.Export(TornRegion(kBytes, kKept, false));
  const RegionRef into = HostRegion(kBytes);
  auto bad = rig.Get(torn, HostRegion(kBytes));
  auto good = rig.Get(key, into);
  CHECK(bad.get().status.reason() == reasons::kMemoryFault);
  REQUIRE_OK(good.get().status);
  CHECK(FirstWrong({into, 0, kBytes}, 7) == kBytes);
}

TEST_CASE("what the processor has found missing is neither sent nor said to have arrived") {
  Rig rig("off");
  const RegionRef from = HostRegion(kBytes);
  const RegionRef into = HostRegion(kBytes);
  const auto missing = std::make_shared<std::atomic<bool>>(true);
  from->SetFaultFlag(missing);
  CHECK(rig.Get(rig.Export(from), HostRegion(kBytes)).get().status.reason() ==
        reasons::kMemoryFault);
  into->SetFaultFlag(missing);
  CHECK(rig.Get(rig.Export(rig.good), into).get().status.reason() == reasons::kMemoryFault);
}
