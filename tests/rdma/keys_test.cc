// What a peer's device can read after its right has ended: asked of the device itself, by a reader
// that keeps no promise.
#include <algorithm>
#include <future>
#include <memory>

#include "tests/rdma/raw_reader.h"
#include "tests/support/catch.h"
#include "tests/support/lent_verbs.h"
#include "tests/support/link_pair.h"
#include "tests/support/memory.h"
#include "tests/support/process.h"
#include "transport/core/toolkit/rdma_settings.h"
#include "transport/link/verbs/factory.h"
#include "transport/memory/dmabuf/dmabuf_memory.h"

namespace onecopy::testing::keys_test {
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
  Fill(buffer.bytes().data() + offset, kBytes, 3);
  return RegionRef(std::move(*region));
}

bool HasPattern(std::span<const std::byte> bytes, uint64_t seed, uint64_t from) {
  return FirstWrong(bytes.data(), bytes.size(), seed, from) == bytes.size();
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
  const RemoteKey text = ExportAndWait(rig.reader.connection(), {region, 100, 1000});
  const verbs::Key key = Decoded(text);
  CHECK(key.window);
  CHECK(key.registration == "host");
  REQUIRE(rig.reader.Read(key.lanes[0], 1000) == IBV_WC_SUCCESS);
  CHECK(HasPattern(rig.reader.bytes().first(1000), 3, 100));
  RevokeAndWait(rig.reader.connection(), text);
  CHECK(rig.reader.Read(key.lanes[0], 1000) == IBV_WC_REM_ACCESS_ERR);
  CHECK(rig.reader.bytes()[0] == std::byte{0});
}

TEST_CASE("what is lent alone opens to the peer's device for as long as it is, and no byte more") {
  const bool windows = GENERATE(true, false);
  CAPTURE(windows);
  Lent().SetNoWindows(!windows);
  const auto rig = [] { return std::make_unique<Rig>(kLong); };
  constexpr uint64_t kSlot = 8192;
  const auto slab_of = [](Rig& one) {
    const RegionRef slab = one.Registered(HostRegion(4 * kSlot));
    Fill({slab, 0, 4 * kSlot}, 3);
    return slab;
  };
  const auto lend = [](Rig& one, const Span& span) {
    std::promise<Result<RemoteKey>> lent;
    one.reader.connection().Lend(span, [&](Result<RemoteKey> key) { lent.set_value(key); });
    auto key = lent.get_future().get();
    REQUIRE_OK(key);
    return *key;
  };
  const auto end = [](Rig& one, const RemoteKey& key) {
    std::promise<void> ended;
    one.reader.connection().EndLoan(key, [&] { ended.set_value(); });
    ended.get_future().wait();
  };
  SECTION("the bytes that were filled, wherever the slot lies") {
    const auto one = rig();
    const RegionRef slab = slab_of(*one);
    const RemoteKey first = lend(*one, {slab, kSlot, 100});
    const RemoteKey second = lend(*one, {slab, 3 * kSlot, kSlot});
    CHECK(Decoded(first).window == windows);
    REQUIRE(one->reader.Read(Decoded(first).lanes[0], 100) == IBV_WC_SUCCESS);
    CHECK(HasPattern(one->reader.bytes().first(100), 3, kSlot));
    REQUIRE(one->reader.Read(Decoded(second).lanes[0], kSlot) == IBV_WC_SUCCESS);
    CHECK(HasPattern(one->reader.bytes().first(kSlot), 3, 3 * kSlot));
    end(*one, first);
    REQUIRE(one->reader.Read(Decoded(second).lanes[0], kSlot) == IBV_WC_SUCCESS);
    // The slot serves again, under another key.
    Fill({slab, kSlot, kSlot}, 4);
    const RemoteKey third = lend(*one, {slab, kSlot, kSlot});
    REQUIRE(one->reader.Read(Decoded(third).lanes[0], kSlot) == IBV_WC_SUCCESS);
    CHECK(HasPattern(one->reader.bytes().first(kSlot), 4, 0));
    // After that the lane is of no use.
    CHECK(one->reader.Read(Decoded(first).lanes[0], 1) == IBV_WC_REM_ACCESS_ERR);
  }
  // Soft-RoCE holds a window against its whole region.
  if (!windows) {
    SECTION("not the byte after them") {
      const auto one = rig();
      const RegionRef slab = slab_of(*one);
      CHECK(one->reader.Read(Decoded(lend(*one, {slab, kSlot, 100})).lanes[0], 101) ==
            IBV_WC_REM_ACCESS_ERR);
    }
    SECTION("nor the one before them") {
      const auto one = rig();
      const RegionRef slab = slab_of(*one);
      verbs::Key::Remote before = Decoded(lend(*one, {slab, kSlot, 100})).lanes[0];
      before.address -= 1;
      CHECK(one->reader.Read(before, 1) == IBV_WC_REM_ACCESS_ERR);
    }
  }
  SECTION("nor anything once it has been withdrawn") {
    const auto one = rig();
    const RegionRef slab = slab_of(*one);
    const RemoteKey key = lend(*one, {slab, kSlot, 100});
    RevokeAndWait(one->reader.connection(), key);
    CHECK(one->reader.Read(Decoded(key).lanes[0], 1) == IBV_WC_REM_ACCESS_ERR);
  }
  Lent().SetNoWindows(false);
}

TEST_CASE("a lease lasts until nothing is exported and its time is over, or its memory goes") {
  if (!DmaBuf::WhyNot().empty()) ONECOPY_SKIP(DmaBuf::WhyNot());
  const uint64_t offset = 4096 + 24;
  DmaBuf buffer(offset + kBytes);

  SECTION("withdrawn at once") {
    Rig rig(0);
    Lent().Tell(buffer);
    const RegionRef region = rig.Registered(DmaBufRegion(buffer, offset));
    const RemoteKey text = ExportAndWait(rig.reader.connection(), {region, 7, kBytes - 7});
    const verbs::Key key = Decoded(text);
    CHECK_FALSE(key.window);
    CHECK(key.registration == "dma-buf");
    REQUIRE(rig.reader.Read(key.lanes[0], kBytes - 7) == IBV_WC_SUCCESS);
    CHECK(HasPattern(rig.reader.bytes().first(kBytes - 7), 3, 7));
    RevokeAndWait(rig.reader.connection(), text);
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
    const RemoteKey first = ExportAndWait(rig.reader.connection(), {region, 0, kBytes});
    RevokeAndWait(rig.reader.connection(), first);
    const RemoteKey second = ExportAndWait(rig.reader.connection(), {region, 0, kBytes});
    const verbs::Key key = Decoded(second);
    CHECK(key.lanes[0].rkey == Decoded(first).lanes[0].rkey);
    RevokeAndWait(rig.reader.connection(), second);
    REQUIRE(rig.reader.Read(key.lanes[0], kBytes) == IBV_WC_SUCCESS);
    CHECK(HasPattern(rig.reader.bytes().first(kBytes), 3, 0));
    region.reset();
    CHECK(rig.reader.Read(key.lanes[0], kBytes) == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("ended when a right to the memory is, whatever its time") {
    Rig rig(kLong);
    Lent().Tell(buffer);
    const RegionRef region = rig.Registered(DmaBufRegion(buffer, offset));
    const RemoteKey first = ExportAndWait(rig.reader.connection(), {region, 0, kBytes});
    const RemoteKey second = ExportAndWait(rig.reader.connection(), {region, 0, kBytes});
    RevokeAndWait(rig.reader.connection(), first);
    rig.links.owner->EndLeases(region);
    // Another transfer's key is another, and nobody's who still reads ends.
    const RemoteKey third = ExportAndWait(rig.reader.connection(), {region, 0, kBytes});
    CHECK(Decoded(third).lanes[0].rkey != Decoded(second).lanes[0].rkey);
    REQUIRE(rig.reader.Read(Decoded(second).lanes[0], kBytes) == IBV_WC_SUCCESS);
    RevokeAndWait(rig.reader.connection(), second);
    REQUIRE(rig.reader.Read(Decoded(third).lanes[0], kBytes) == IBV_WC_SUCCESS);
    CheckIsTakenBack(rig, second);
  }
  SECTION("ended at once when nobody reads") {
    Rig rig(kLong);
    Lent().Tell(buffer);
    const RegionRef region = rig.Registered(DmaBufRegion(buffer, offset));
    const RemoteKey text = ExportAndWait(rig.reader.connection(), {region, 0, kBytes});
    RevokeAndWait(rig.reader.connection(), text);
    REQUIRE(rig.reader.Read(Decoded(text).lanes[0], 8) == IBV_WC_SUCCESS);
    rig.links.owner->EndLeases(region);
    CheckIsTakenBack(rig, text);
  }
  SECTION("to nobody who guesses its number: it takes the address, which nothing else tells") {
    Rig rig(kLong);
    Lent().Tell(buffer);
    const RegionRef region = rig.Registered(DmaBufRegion(buffer, offset));
    const verbs::Key key = Decoded(ExportAndWait(rig.reader.connection(), {region, 0, kBytes}));
    const DmaBuf other_buffer(offset + kBytes);
    Lent().Tell(other_buffer);
    const RegionRef other = rig.Registered(DmaBufRegion(other_buffer, offset));
    const verbs::Key of_other = Decoded(ExportAndWait(rig.reader.connection(), {other, 0, kBytes}));
    // Neither where this process has them, nor from where another lease lies.
    const auto apart = [](uint64_t a, uint64_t b) { return a > b ? a - b : b - a; };
    constexpr uint64_t kFar = uint64_t{1} << 40;
    const uint64_t here = reinterpret_cast<uintptr_t>(region->address());
    CHECK(apart(key.lanes[0].address, here) > kFar);
    CHECK(apart(key.lanes[0].address, of_other.lanes[0].address) > kFar);
    const uint64_t guess = GENERATE_COPY(values<uint64_t>({here, 0, offset}));
    CHECK(rig.reader.Read({key.lanes[0].rkey, guess}, 8) == IBV_WC_REM_ACCESS_ERR);
    Lent().Forget(other_buffer);
  }
  SECTION("no byte beyond the region") {
    Rig rig(kLong);
    Lent().Tell(buffer);
    const RegionRef region = rig.Registered(DmaBufRegion(buffer, offset));
    const RemoteKey text = ExportAndWait(rig.reader.connection(), {region, 0, kBytes});
    verbs::Key::Remote beyond = Decoded(text).lanes[0];
    beyond.address += kBytes;
    CHECK(rig.reader.Read(beyond, 1) == IBV_WC_REM_ACCESS_ERR);
  }
  Lent().Forget(buffer);
}

}  // namespace
}  // namespace onecopy::testing::keys_test
