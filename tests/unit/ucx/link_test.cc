// The link as a whole, over this machine's UCX: whom it talks to, what it refuses, what it reports.
#include <algorithm>
#include <random>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/link_pair.h"
#include "tests/support/memory.h"
#include "transport/link/ucx/offer.h"
#include "transport/link/ucx/ucx_link.h"
#include "transport/shim/ucx.h"

using namespace onecopy;
using namespace onecopy::testing;
using ucx::LinkOptions;
using ucx::UcxLink;

namespace {

[[maybe_unused]] const bool kPrepared = [] {
  shim::PrepareUcxEnvironment();
  return true;
}();

#define SKIP_WITHOUT_UCX()                                 \
  if (const auto loaded = shim::LoadUcx(); !loaded.ok()) { \
    ONECOPY_SKIP(loaded.status().message());               \
  }

LinkOptions Options(const std::string& node) {
  LinkOptions options;
  options.node = node;
  options.transports = {"tcp"};
  options.chunk_bytes = 1 << 20;
  options.gets = 4;
  return options;
}

LinkOptions Trusting(const std::string& node, const std::string& peer) {
  LinkOptions options = Options(node);
  options.trust = {{peer}, true};
  return options;
}

std::unique_ptr<LinkPair> MakePair(LinkOptions owner, LinkOptions reader) {
  auto pair = std::make_unique<LinkPair>();
  pair->owner = UcxLink::Create(std::move(owner));
  pair->reader = UcxLink::Create(std::move(reader));
  return pair;
}

std::string OfferOf(Link& link, const std::string& peer) {
  const auto dialing = Dial(link, peer);
  REQUIRE_OK(dialing);
  return (*dialing)->offer();
}

// One get of 64 KiB.
Got GetOne(Connected& connected) {
  const RegionRef source = HostRegion(65536);
  const RegionRef sink = HostRegion(65536);
  Fill({source, 0, source->bytes()}, 3);
  auto key = connected.Export({source, 0, source->bytes()});
  REQUIRE_OK(key);
  Got got = connected.StartGet({1, &*key, 0, {sink, 0, sink->bytes()}}).get();
  if (got.status.ok()) CHECK(FirstWrong({sink, 0, sink->bytes()}, 3) == sink->bytes());
  return got;
}

std::vector<std::pair<std::string, uint64_t>> EvidenceOf(Connection& connection) {
  std::promise<std::vector<std::pair<std::string, uint64_t>>> promise;
  connection.Evidence([&](auto evidence) { promise.set_value(std::move(evidence)); });
  return promise.get_future().get();
}

}  // namespace

TEST_CASE("a link without its library says so and refuses") {
  LinkOptions options = Options("east");
  options.library = "/nowhere/libucp.so.0";
  const auto missing = UcxLink::Create(options);
  CHECK(missing->Describe().viability.reason == reasons::kLinkMissing);
  CHECK(Dial(*missing, "west").status().reason() == reasons::kLinkMissing);
  CHECK(Accept(*missing, "west", "").status().reason() == reasons::kLinkMissing);
  CHECK_FALSE(missing->Register(HostRegion(4096)).ok());
}

TEST_CASE("where nobody is trusted, nothing reaches the network") {
  SKIP_WITHOUT_UCX();
  LinkOptions options = Options("east");
  options.transports.clear();
  for (const auto& trust : {ucx::TrustSettings{{}, true}, ucx::TrustSettings{{"west"}, false}}) {
    options.trust = trust;
    const LinkCapability capability = UcxLink::Create(options)->Describe();
    CHECK(capability.attributes.at("trust") == "nobody");
    CHECK(capability.attributes.at("error_handling") == "none");
    for (const NicCapability& nic : capability.nics) {
      CHECK((nic.name == "cuda_ipc" || nic.viability.reason == reasons::kInsecure));
    }
  }
}

TEST_CASE("a trusted peer's address is taken from its offer, any other's only from its process") {
  SKIP_WITHOUT_UCX();
  auto trusting = MakePair(Trusting("owner", "reader"), Trusting("reader", "owner"));
  auto local = MakePair(Options("owner"), Options("reader"));
  // An address in the offer is none to a node on loopback, and the other way round.
  CHECK(Accept(*local->owner, "reader", OfferOf(*trusting->reader, "owner")).status().code() ==
        Code::kPermissionDenied);
  CHECK(Accept(*trusting->owner, "reader", OfferOf(*local->reader, "owner")).status().code() ==
        Code::kInvalidArgument);
  // A stranger's, in the offer, is not even looked at.
  CHECK(Accept(*trusting->owner, "stranger", OfferOf(*trusting->reader, "owner")).status().code() ==
        Code::kPermissionDenied);
  // And who is trusted is let in.
  auto connected = Connect(*trusting);
  REQUIRE_OK(connected);
  REQUIRE_OK(GetOne(*connected).status);
  auto elsewhere = ucx::DecodeOffer(OfferOf(*local->reader, "owner"));
  REQUIRE_OK(elsewhere);
  elsewhere->host = "another machine";
  CHECK(Accept(*local->owner, "reader", ucx::Encode(*elsewhere)).status().code() ==
        Code::kPermissionDenied);
}

TEST_CASE("unlike versions are told apart before they talk") {
  SKIP_WITHOUT_UCX();
  auto pair = MakePair(Options("owner"), Options("reader"));
  auto offer = ucx::DecodeOffer(OfferOf(*pair->reader, "owner"));
  REQUIRE_OK(offer);
  CHECK(pair->owner->Describe().version_must_match);
  CHECK(offer->version == pair->owner->Describe().version);
  offer->version = "0.9.9";
  const Status refused = Accept(*pair->owner, "reader", ucx::Encode(*offer)).status();
  CHECK(refused.reason() == reasons::kLinkVersions);
  CHECK(refused.message().find("0.9.9") != std::string::npos);
}

TEST_CASE("offers that were tampered with never reach UCX") {
  SKIP_WITHOUT_UCX();
  for (const bool trusting : {false, true}) {
    auto pair = trusting ? MakePair(Trusting("owner", "reader"), Trusting("reader", "owner"))
                         : MakePair(Options("owner"), Options("reader"));
    const std::string good = OfferOf(*pair->reader, "owner");
    std::minstd_rand random(7);
    for (int i = 0; i < 3000; ++i) {
      std::string bad = good;
      for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
        bad[random() % bad.size()] = static_cast<char>(random());
      }
      if (random() % 4 == 0) bad.resize(random() % bad.size());
      if (bad == good) continue;
      REQUIRE(Accept(*pair->owner, "reader", bad).status().code() == Code::kInvalidArgument);
    }
  }
}

TEST_CASE("what one side has lost, the other gives up before it connects anew") {
  SKIP_WITHOUT_UCX();
  auto pair = MakePair(Options("owner"), Options("reader"));
  const auto dial = [&] {
    auto dialing = Dial(*pair->reader, "owner");
    REQUIRE_OK(dialing);
    return std::move(*dialing);
  };
  const auto establish = [&](Dialing& dialing, Link::Accepted accepted) {
    std::promise<Result<std::shared_ptr<Connection>>> made;
    dialing.Establish("127.0.0.1", accepted.answer,
                      [&](auto connection) { made.set_value(std::move(connection)); });
    auto reader = made.get_future().get();
    REQUIRE_OK(reader);
    return Connected{pair.get(), std::move(accepted.connection), std::move(*reader)};
  };
  const auto decoded = [](const std::string& text) {
    auto offer = ucx::DecodeOffer(text);
    REQUIRE_OK(offer);
    return std::move(*offer);
  };
  const auto first_dialing = dial();
  auto first_accepted = Accept(*pair->owner, "reader", first_dialing->offer());
  REQUIRE_OK(first_accepted);
  const ucx::EndId reader_end = decoded(first_dialing->offer()).end;
  const ucx::EndId owner_end = decoded(first_accepted->answer).end;
  Connected first = establish(*first_dialing, std::move(*first_accepted));
  REQUIRE_OK(GetOne(first).status);

  // The reader says that its end went with the endpoint, of which the owner has seen nothing.
  const auto dialing = dial();
  ucx::Offer offer = decoded(dialing->offer());
  CHECK(offer.lost.empty());
  offer.lost = {owner_end};
  auto accepted = Accept(*pair->owner, "reader", ucx::Encode(offer));
  REQUIRE_OK(accepted);
  CHECK(first.owner->closed());
  CHECK_FALSE(accepted->connection->closed());
  CHECK(decoded(accepted->answer).lost == std::vector<ucx::EndId>{reader_end});
  CHECK(decoded(OfferOf(*pair->owner, "reader")).lost == std::vector<ucx::EndId>{reader_end});
  CHECK(decoded(OfferOf(*pair->owner, "somebody else")).lost.empty());
  Connected second = establish(*dialing, std::move(*accepted));
  CHECK(first.reader->closed());
  REQUIRE_OK(GetOne(second).status);
}

TEST_CASE("over sockets a get counts all its copies, and its evidence is UCX's") {
  SKIP_WITHOUT_UCX();
  auto pair = MakePair(Options("owner"), Options("reader"));
  const LinkCapability capability = pair->owner->Describe();
  CHECK(capability.viability.viable);
  CHECK_FALSE(capability.rdma);
  REQUIRE(capability.nics.size() == 1);
  CHECK(capability.nics[0].name == "tcp");
  CHECK_FALSE(capability.rdma);
  CHECK(capability.attributes.at("settings").find("UCX_TLS=tcp") != std::string::npos);
  auto connected = Connect(*pair);
  REQUIRE_OK(connected);
  const Got got = GetOne(*connected);
  REQUIRE_OK(got.status);
  CHECK(got.steps->size() == 5);
  const auto evidence = EvidenceOf(*connected->reader);
  REQUIRE(evidence.size() == 1);
  CHECK(evidence[0].second == 65536);
  const bool named = capability.attributes.at("protocols_named") == "yes";
  CHECK(evidence[0].first ==
        (named ? "ucx get: software emulation tcp/lo" : "ucx get: not named by UCX"));
  const LinkAccess access = connected->reader->Access("", *HostRegion(1));
  CHECK(access == LinkAccess{"ucx-writable", "lease"});
}

TEST_CASE("inside the machine a get is one copy, or refused where UCX would emulate it") {
  SKIP_WITHOUT_UCX();
  LinkOptions owner = Options("owner");
  LinkOptions reader = Options("reader");
  owner.transports.clear();
  reader.transports.clear();
  auto pair = MakePair(owner, reader);
  CHECK(pair->owner->Describe().attributes.at("settings").find("tcp") == std::string::npos);
  auto connected = Connect(*pair);
  REQUIRE_OK(connected);
  for (int i = 0; i < 3; ++i) {
    const Got got = GetOne(*connected);
    if (got.status.ok()) {
      CHECK(got.steps->size() == 1);
      CHECK(EvidenceOf(*connected->reader)[0].first.find("zero-copy") != std::string::npos);
    } else {
      CHECK(got.status.reason() == reasons::kHostNotPinnable);
      CHECK(got.status.message().find("emulation") != std::string::npos);
    }
  }
}

TEST_CASE("memory that UCX does not know is refused with the reason") {
  SKIP_WITHOUT_UCX();
  auto pair = MakePair(Options("owner"), Options("reader"));
  std::byte bytes[64] = {};
  auto region = [&](const std::string& kind) {
    return std::make_shared<Region>(Place{kind, kind == "host" ? "" : "GPU-1"}, bytes, sizeof bytes,
                                    true, Region::Release());
  };
  CHECK(pair->owner->Register(region("dmabuf")).status().reason() == reasons::kNotApplicable);
  if (pair->owner->Describe().attributes.at("cuda") == "no") {
    CHECK(pair->owner->Register(region("cuda")).status().reason() == reasons::kGpuNotPinnable);
  }
  auto connected = Connect(*pair);
  REQUIRE_OK(connected);
  std::promise<Status> exported;
  connected->owner->Export({region("host"), 0, 64},
                           [&](auto key) { exported.set_value(key.status()); });
  CHECK(exported.get_future().get().reason() == reasons::kNotApplicable);
  // Registering is done once, and ends with the region.
  RegionRef host = region("host");
  const std::weak_ptr<Region> watch = host;
  REQUIRE_OK(pair->owner->Register(host));
  REQUIRE_OK(pair->owner->Register(host));
  host.reset();
  CHECK(watch.expired());
}
