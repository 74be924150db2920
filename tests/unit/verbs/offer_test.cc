// What ends of a connection tell each other survives the way, and nonsense does not get through.
#include "transport/link/verbs/offer.h"

#include <random>

#include "tests/support/catch.h"

using namespace onecopy;
using namespace onecopy::verbs;

namespace {

QueuePairAddress Sample() {
  QueuePairAddress address;
  address.nic = "mlx5_0:2";
  address.fabric = "roce";
  address.ethernet = true;
  address.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  address.number = 0xabcdef;
  address.packet_sequence = 0x123456;
  address.mtu_bytes = 4096;
  address.reads = 16;
  return address;
}

Key SampleKey() {
  Key key;
  key.id = 7;
  key.window = true;
  key.memory = "GPU-5f";
  key.registration = "dma-buf";
  key.bytes = 1 << 20;
  key.lanes = {{0x1234, 0x7f0000000000}, {}};
  return key;
}

template <typename Value>
bool IsOffer(const Value& change) {
  QueuePairAddress address = Sample();
  change(address);
  return DecodeOffer(Encode(Offer{{address}})).ok();
}

}  // namespace

TEST_CASE("offers, answers and keys arrive as they were sent") {
  const auto offer = DecodeOffer(Encode(Offer{{Sample(), Sample()}}));
  REQUIRE_OK(offer);
  REQUIRE(offer->lanes.size() == 2);
  CHECK(offer->lanes[1].nic == "mlx5_0:2");
  CHECK(offer->lanes[1].gid == Sample().gid);
  CHECK(offer->lanes[1].number == 0xabcdef);
  CHECK(offer->lanes[1].reads == 16);

  Answer answer;
  answer.lanes.push_back({});
  answer.lanes.push_back({true, Sample()});
  const auto answered = DecodeAnswer(Encode(answer));
  REQUIRE_OK(answered);
  CHECK_FALSE(answered->lanes[0].present);
  CHECK(answered->lanes[1].address.packet_sequence == 0x123456);

  const auto key = DecodeKey(Encode(SampleKey()));
  REQUIRE_OK(key);
  CHECK(key->window);
  CHECK(key->memory == "GPU-5f");
  CHECK(key->lanes[0].address == 0x7f0000000000);
  CHECK(key->lanes[1].rkey == 0);
}

TEST_CASE("an address that no device can have is refused") {
  CHECK(IsOffer([](QueuePairAddress&) {}));
  CHECK_FALSE(IsOffer([](QueuePairAddress& address) { address.nic = ""; }));
  CHECK_FALSE(IsOffer([](QueuePairAddress& address) { address.nic = "a\nb"; }));
  CHECK_FALSE(IsOffer([](QueuePairAddress& address) { address.gid = {}; }));
  CHECK_FALSE(IsOffer([](QueuePairAddress& address) { address.ethernet = false; }));  // lid 0
  CHECK_FALSE(IsOffer([](QueuePairAddress& address) { address.number = 0; }));
  CHECK_FALSE(IsOffer([](QueuePairAddress& address) { address.number = 1 << 24; }));
  CHECK_FALSE(IsOffer([](QueuePairAddress& address) { address.packet_sequence = UINT32_MAX; }));
  CHECK_FALSE(IsOffer([](QueuePairAddress& address) { address.mtu_bytes = 1500; }));
  CHECK_FALSE(IsOffer([](QueuePairAddress& address) { address.reads = 0; }));
}

TEST_CASE("too many lanes, none, or bytes beyond the end are refused") {
  CHECK_FALSE(DecodeOffer(Encode(Offer{})).ok());
  CHECK_FALSE(
      DecodeOffer(Encode(Offer{std::vector<QueuePairAddress>(kMaxLanes + 1, Sample())})).ok());
  CHECK_FALSE(DecodeOffer(Encode(Offer{{Sample()}}) + "x").ok());
  Key key = SampleKey();
  key.bytes = UINT64_MAX;  // an address that wraps around
  CHECK_FALSE(DecodeKey(Encode(key)).ok());
}

TEST_CASE("random and shortened bytes are refused without harm") {
  std::mt19937_64 random(1);
  const std::string good[] = {Encode(Offer{{Sample(), Sample()}}), Encode(SampleKey())};
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good[i % 2];
    if (i % 3 == 0) text.resize(random() % text.size());
    for (int flips = 0; flips < 4; ++flips) {
      if (!text.empty()) text[random() % text.size()] = static_cast<char>(random());
    }
    const auto offer = DecodeOffer(text);
    if (offer.ok()) {
      CHECK(offer->lanes.size() <= kMaxLanes);
      for (const QueuePairAddress& lane : offer->lanes) CHECK(lane.number < 1U << 24);
    }
    const auto key = DecodeKey(text);
    if (key.ok()) CHECK(key->lanes.size() <= kMaxLanes);
    (void)DecodeAnswer(text);
  }
}
