// What a peer's device can read after its right has ended: asked of the device itself, by a reader
// that keeps no promise.
#include <algorithm>

#include "tests/rdma/raw_reader.h"
#include "tests/support/catch.h"
#include "tests/support/lent_verbs.h"
#include "tests/support/link_pair.h"
#include "tests/support/memory.h"
#include "tests/support/process.h"
#include "transport/core/rdma_settings.h"
#include "transport/link/verbs/factory.h"
#include "transport/memory/dmabuf/dmabuf_memory.h"

namespace onecopy::testing {
namespace {

constexpr uint32_t kBytes = 40'000;
constexpr int64_t kLong = 3'600'000;  // ms

LentVerbs& Lent() {
  static LentVerbs lent;
  return lent;
}

const shim::VerbsApi& Verbs() {
  static const auto verbs = [] {
    Lent().ControlThisProcess();
    auto loaded = shim::LoadVerbs(LentVerbs::Library());
    if (!loaded.ok()) throw std::runtime_error(loaded.status().ToString());
    return *loaded;
  }();
  return *verbs;
}

// A link on the guest's first device, and a reader of it.
struct Rig {
  explicit Rig(int64_t lease_ms) : links(MakeLinks(lease_ms)), reader(Verbs(), *links.owner) {}

  static LinkPair MakeLinks(int64_t lease_ms) {
    Verbs();  // its control comes first
    Backend<Link> verbs = verbs::Describe();
    BackendContext context{"owner", Settings(verbs.settings), LentVerbs::Library().string(), {}};
    context.rdma = Settings(RdmaSettings());
    context.rdma.Set("devices", std::vector<std::string>{kGuestDevices[0].name});
    context.settings.Set("lease", lease_ms);
    auto made = verbs.create(context);
    REQUIRE_OK(made);
    return {std::move(*made), nullptr};
  }

  RegionRef Registered(RegionRef region) {
    const auto registered = links.owner->Register(region);
    REQUIRE_OK(registered);
    return region;
  }

  LinkPair links;  // its reader is the raw one
  RawReader reader;
};

verbs::Key Decoded(const RemoteKey& key) {
  const Result<verbs::Key> decoded = verbs::DecodeKey(key);
  REQUIRE_OK(decoded);
  REQUIRE(decoded->lanes.size() == 1);
  return *decoded;
}

// Of a dma-buf that holds the pattern from byte `offset` on.
RegionRef DmaBufRegion(const DmaBuf& buffer, uint64_t offset) {
  static dmabuf::DmaBufMemory memory("owner", 1);
  ImportRequest request;
  request.form = "dmabuf";
  request.fd = buffer.fd();
  request.offset = offset;
  request.bytes = kBytes;
  auto region = memory.Import(request);
  REQUIRE_OK(region);
  for (uint64_t i = 0; i < kBytes; ++i) buffer.bytes()[offset + i] = PatternAt(i, 3);
  return RegionRef(std::move(*region));
}

bool HasPattern(std::span<const std::byte> bytes, uint64_t seed, uint64_t from) {
  for (uint64_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != PatternAt(from + i, seed)) return false;
  }
  return true;
}

// The device lets nobody read by this key any more, from some moment on.
void CheckIsTakenBack(Rig& rig, const RemoteKey& key) {
  ibv_wc_status status = IBV_WC_SUCCESS;
  WaitUntil("the region is taken back", [&] {
    status = rig.reader.Read(Decoded(key).lanes[0], 8);
    return status != IBV_WC_SUCCESS;
  });
  CHECK(status == IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("a finished transfer's window is closed to the peer's device") {
  Rig rig(kLong);
  const RegionRef region = rig.Registered(HostRegion(kBytes));
  Fill({region, 0, kBytes}, 3);
  const RemoteKey text = ExposeAndWait(rig.reader.connection(), {region, 100, 1000});
  const verbs::Key key = Decoded(text);
  CHECK(key.window);
  CHECK(key.registration == "host");
  REQUIRE(rig.reader.Read(key.lanes[0], 1000) == IBV_WC_SUCCESS);
  CHECK(HasPattern(rig.reader.bytes().first(1000), 3, 100));
  WithdrawAndWait(rig.reader.connection(), text);
  CHECK(rig.reader.Read(key.lanes[0], 1000) == IBV_WC_REM_ACCESS_ERR);
  CHECK(rig.reader.bytes()[0] == std::byte{0});
}

TEST_CASE("a lease lasts until nothing is exposed and its time is over, or its memory goes") {
  if (!DmaBuf::WhyNot().empty()) ONECOPY_SKIP(DmaBuf::WhyNot());
  const uint64_t offset = 4096 + 24;
  DmaBuf buffer(offset + kBytes);

  SECTION("withdrawn at once") {
    Rig rig(0);
    Lent().Tell(buffer);
    const RegionRef region = rig.Registered(DmaBufRegion(buffer, offset));
    const RemoteKey text = ExposeAndWait(rig.reader.connection(), {region, 7, kBytes - 7});
    const verbs::Key key = Decoded(text);
    CHECK_FALSE(key.window);
    CHECK(key.registration == "dma-buf");
    REQUIRE(rig.reader.Read(key.lanes[0], kBytes - 7) == IBV_WC_SUCCESS);
    CHECK(HasPattern(rig.reader.bytes().first(kBytes - 7), 3, 7));
    WithdrawAndWait(rig.reader.connection(), text);
    // The link's own thread takes the region back; until then reads succeed.
    ibv_wc_status status = IBV_WC_SUCCESS;
    WaitUntil("the region is taken back", [&] {
      status = rig.reader.Read(key.lanes[0], 8);
      return status != IBV_WC_SUCCESS;
    });
    CHECK(status == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("kept for the next transfer, and gone with the memory") {
    Rig rig(kLong);
    Lent().Tell(buffer);
    RegionRef region = rig.Registered(DmaBufRegion(buffer, offset));
    const RemoteKey first = ExposeAndWait(rig.reader.connection(), {region, 0, kBytes});
    WithdrawAndWait(rig.reader.connection(), first);
    const RemoteKey second = ExposeAndWait(rig.reader.connection(), {region, 0, kBytes});
    const verbs::Key key = Decoded(second);
    CHECK(key.lanes[0].rkey == Decoded(first).lanes[0].rkey);
    WithdrawAndWait(rig.reader.connection(), second);
    REQUIRE(rig.reader.Read(key.lanes[0], kBytes) == IBV_WC_SUCCESS);
    CHECK(HasPattern(rig.reader.bytes().first(kBytes), 3, 0));
    region.reset();
    CHECK(rig.reader.Read(key.lanes[0], kBytes) == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("ended when a right to the memory is, whatever its time") {
    Rig rig(kLong);
    Lent().Tell(buffer);
    const RegionRef region = rig.Registered(DmaBufRegion(buffer, offset));
    const RemoteKey first = ExposeAndWait(rig.reader.connection(), {region, 0, kBytes});
    const RemoteKey second = ExposeAndWait(rig.reader.connection(), {region, 0, kBytes});
    WithdrawAndWait(rig.reader.connection(), first);
    rig.links.owner->EndLeases(region);
    // Another transfer's key is another, and nobody's who still reads ends.
    const RemoteKey third = ExposeAndWait(rig.reader.connection(), {region, 0, kBytes});
    CHECK(Decoded(third).lanes[0].rkey != Decoded(second).lanes[0].rkey);
    REQUIRE(rig.reader.Read(Decoded(second).lanes[0], kBytes) == IBV_WC_SUCCESS);
    WithdrawAndWait(rig.reader.connection(), second);
    REQUIRE(rig.reader.Read(Decoded(third).lanes[0], kBytes) == IBV_WC_SUCCESS);
    CheckIsTakenBack(rig, second);
  }
  SECTION("ended at once when nobody reads") {
    Rig rig(kLong);
    Lent().Tell(buffer);
    const RegionRef region = rig.Registered(DmaBufRegion(buffer, offset));
    const RemoteKey text = ExposeAndWait(rig.reader.connection(), {region, 0, kBytes});
    WithdrawAndWait(rig.reader.connection(), text);
    REQUIRE(rig.reader.Read(Decoded(text).lanes[0], 8) == IBV_WC_SUCCESS);
    rig.links.owner->EndLeases(region);
    CheckIsTakenBack(rig, text);
  }
  SECTION("no byte beyond the region") {
    Rig rig(kLong);
    Lent().Tell(buffer);
    const RegionRef region = rig.Registered(DmaBufRegion(buffer, offset));
    const RemoteKey text = ExposeAndWait(rig.reader.connection(), {region, 0, kBytes});
    verbs::Key::Remote beyond = Decoded(text).lanes[0];
    beyond.address += kBytes;
    CHECK(rig.reader.Read(beyond, 1) == IBV_WC_REM_ACCESS_ERR);
  }
  Lent().Forget(buffer);
}

}  // namespace
}  // namespace onecopy::testing
