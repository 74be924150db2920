// What comes from peers before UCX sees any of it.
#include "transport/link/ucx/offer.h"

#include <random>

#include "tests/support/catch.h"
#include "transport/link/ucx/message.h"

using namespace onecopy;
using namespace onecopy::ucx;

namespace {

Offer Sample() {
  return {0x1122334455667788, "1.13.1", "host-1", true, 42, 7, Seal("an address"), {3, 1ull << 63}};
}

// Calls `check` with texts made of `good` by cutting, changing and adding.
template <typename Check>
void Spoil(const std::string& good, const Check& check) {
  for (size_t i = 0; i < good.size(); ++i) {
    check(good.substr(0, i));
    std::string changed = good;
    changed[i] = static_cast<char>(changed[i] ^ 0x41);
    check(changed);
  }
  check(good + "x");
  std::minstd_rand random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string noise(random() % 200, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    check(noise);
    if (noise.size() > 4) check(noise.replace(0, 4, good.substr(0, 4)));
  }
}

}  // namespace

TEST_CASE("an offer survives its encoding, and nothing else passes for one") {
  const std::string text = Encode(Sample());
  const auto decoded = DecodeOffer(text);
  REQUIRE_OK(decoded);
  CHECK(*decoded == Sample());
  Spoil(text, [](const std::string& spoilt) {
    if (DecodeOffer(spoilt).ok()) FAIL("accepted " << spoilt.size() << " bytes");
  });
}

TEST_CASE("an offer of absurd sizes is refused, whatever its checksum") {
  Offer offer = Sample();
  offer.address = std::string(kMaxAddressBytes + 65, 'a');
  CHECK_FALSE(DecodeOffer(Encode(offer)).ok());
  offer = Sample();
  offer.version = std::string(1000, '1');
  CHECK_FALSE(DecodeOffer(Encode(offer)).ok());
  offer = Sample();
  offer.lost.assign(kMaxLostEnds, 1);
  CHECK(DecodeOffer(Encode(offer)).ok());
  offer.lost.push_back(1);
  CHECK_FALSE(DecodeOffer(Encode(offer)).ok());
}

TEST_CASE("an address is taken only whole and as it was sealed") {
  const std::string address(300, 'a');
  const std::string sealed = Seal(address);
  const auto unsealed = Unseal(sealed);
  REQUIRE_OK(unsealed);
  CHECK(*unsealed == address);
  CHECK_FALSE(Unseal(Seal("")).ok());
  CHECK_FALSE(Unseal(Seal(std::string(kMaxAddressBytes + 1, 'a'))).ok());
  Spoil(sealed, [](const std::string& spoilt) {
    if (Unseal(spoilt).ok()) FAIL("accepted " << spoilt.size() << " bytes");
  });
}

TEST_CASE("a key names an export and holds nothing of UCX's") {
  const KeyName key{5, 6};
  const auto decoded = DecodeKey(Encode(key));
  REQUIRE_OK(decoded);
  CHECK(*decoded == key);
  CHECK(Encode(key).size() == 20);
  for (const std::string& bad : {std::string(), std::string("x"), std::string(20, 'x'),
                                 Encode(key) + "x", Encode(key).substr(1)}) {
    CHECK_FALSE(DecodeKey(bad).ok());
  }
}

TEST_CASE("messages survive their encoding; noise is dropped or harmless") {
  const Message message{MessageKind::kExport, 1, 2, 3, "text"};
  const auto decoded = DecodeMessage(Encode(message));
  REQUIRE(decoded.has_value());
  CHECK(*decoded == message);
  Message long_one = message;
  long_one.text = std::string(kMaxText + 1, 'x');
  CHECK_FALSE(DecodeMessage(Encode(long_one)).has_value());
  Spoil(Encode(message), [](const std::string& spoilt) {
    const auto read = DecodeMessage(spoilt);  // there is no checksum: UCX has its own
    if (read && Encode(*read) != spoilt) FAIL("read as something else");
  });

  const ExportInfo info{0x1000, 4096, "GPU-1", "rkey"};
  const auto exported = DecodeExportInfo(Encode(info));
  REQUIRE(exported.has_value());
  CHECK(*exported == info);
  CHECK_FALSE(DecodeExportInfo(Encode(ExportInfo{1, 2, "host", ""})).has_value());
  Spoil(Encode(info), [](const std::string& spoilt) { (void)DecodeExportInfo(spoilt); });
}
