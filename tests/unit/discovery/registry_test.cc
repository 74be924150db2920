#include "daemon/discovery/etcd/registry.h"

#include <random>

#include "tests/support/catch.h"

namespace onecopy::discovery {
namespace {

const std::string kPrefix = "/onecopy/nodes/";
const Value kOwn{"east", "10.0.0.1:7701", "aa"};

std::string Text(const std::string& name, const std::string& address,
                 const std::string& instance = "bb") {
  return PrintValue({name, address, instance});
}

TEST_CASE("a value is read as it was written and unknown fields do not matter") {
  const auto read = ParseValue(PrintValue(kOwn));
  REQUIRE_OK(read);
  CHECK(*read == kOwn);
  REQUIRE_OK(ParseValue(R"({"version":1,"name":"a","address":"b:1","more":[1,{}]})"));
}

TEST_CASE("what is no value of this version is refused") {
  for (const char* bad :
       {"", "x", "[]", "1", "null", "{}", R"({"version":"1","name":"a","address":"b:1"})",
        R"({"version":1,"address":"b:1"})", R"({"version":1,"name":"a"})",
        R"({"version":1,"name":"a b","address":"b:1"})",
        R"({"version":1,"name":1,"address":"b:1"})",
        R"({"version":1,"name":"a","address":"b:1","instance":"../x"})",
        R"({"version":1.5,"name":"a","address":"b:1"})", "\xff\xfe", "{\"version\":1"}) {
    INFO(bad);
    CHECK(ParseValue(bad).status().code() == Code::kInvalidArgument);
  }
  CHECK(ParseValue(R"({"version":2})").status().code() == Code::kUnimplemented);
  CHECK_FALSE(ParseValue(std::string(kMaxValueBytes + 1, ' ')).ok());
  // As deep as it fits.
  CHECK_FALSE(ParseValue(std::string(kMaxValueBytes, '[')).ok());
}

TEST_CASE("random bytes are no entry") {
  std::mt19937 random(1);
  Registry registry(kPrefix, kOwn);
  for (int i = 0; i < 5'000; ++i) {
    std::string value(random() % 64, '\0');
    for (char& c : value) c = static_cast<char>(random());
    std::string key = kPrefix + value.substr(0, random() % 8);
    registry.Put(key, value);
  }
  CHECK(registry.Now().entries.empty());
}

TEST_CASE("entries come and go") {
  Registry registry(kPrefix, kOwn);
  registry.Put(kPrefix + "west", Text("west", "10.0.0.2:7701"));
  registry.Put(kPrefix + "noise", "noise");
  registry.Put("/elsewhere/north", Text("north", "10.0.0.3:7701"));
  registry.Put(kPrefix + "liar", Text("west", "10.0.0.9:7701"));
  CHECK(registry.Now().entries == std::vector<Entry>{{"west", "10.0.0.2:7701"}});
  CHECK(registry.Now().refused == 3);
  // From good to bad and back.
  registry.Put(kPrefix + "west", "noise");
  CHECK(registry.Now().entries.empty());
  CHECK(registry.Now().refused == 4);
  registry.Put(kPrefix + "west", Text("west", "10.0.0.4:7701"));
  CHECK(registry.Now().entries == std::vector<Entry>{{"west", "10.0.0.4:7701"}});
  registry.Delete(kPrefix + "west");
  registry.Delete(kPrefix + "noise");
  CHECK(registry.Now().entries.empty());
  CHECK(registry.Now().refused == 2);
}

TEST_CASE("it is known whose this node's own key is") {
  using Holder = Registry::Holder;
  Registry registry(kPrefix, kOwn);
  CHECK(registry.holder() == Holder::kNone);
  registry.Put(kPrefix + "east", PrintValue(kOwn));
  CHECK(registry.holder() == Holder::kThis);
  registry.Put(kPrefix + "east", Text("east", kOwn.address));
  CHECK(registry.holder() == Holder::kEarlier);
  registry.Put(kPrefix + "east", Text("east", "10.0.0.5:7701"));
  CHECK(registry.holder() == Holder::kOther);
  CHECK(registry.held_by().address == "10.0.0.5:7701");
  registry.Put(kPrefix + "east", "noise");
  CHECK(registry.holder() == Holder::kNone);
  registry.Put(kPrefix + "east", R"({"version":2})");
  CHECK(registry.holder() == Holder::kOther);
  registry.Delete(kPrefix + "east");
  CHECK(registry.holder() == Holder::kNone);
  CHECK(registry.Now().entries.empty());
}

TEST_CASE("claims of others to this node's name are kept and those of other names are not") {
  Registry registry(kPrefix, kOwn);
  registry.Put(ClaimKey(kPrefix, "east", "bb"), Text("east", "10.0.0.5:7701"));
  registry.Put(ClaimKey(kPrefix, "east", "aa"), PrintValue(kOwn));
  registry.Put(ClaimKey(kPrefix, "west", "cc"), Text("west", "10.0.0.6:7701", "cc"));
  REQUIRE(registry.claims().size() == 1);
  CHECK(registry.claims()[0].address == "10.0.0.5:7701");
  CHECK(registry.Now().entries.empty());
  CHECK(registry.Now().refused == 0);
  registry.Delete(ClaimKey(kPrefix, "east", "bb"));
  CHECK(registry.claims().empty());
}

TEST_CASE("ten thousand entries are kept track of and as many as there may be are given") {
  Registry registry(kPrefix, kOwn);
  for (int i = 0; i < 10'000; ++i) {
    const std::string name = "n" + std::to_string(i);
    registry.Put(kPrefix + name, Text(name, "10.0.0.2:7701"));
  }
  CHECK(registry.Now().entries.size() == kMaxEntries);
  CHECK(registry.Now().refused == 10'000 - kMaxEntries);
  for (int i = 0; i < 20'000; ++i) registry.Put(kPrefix + "x" + std::to_string(i), "noise");
  CHECK(registry.Now().refused == 30'000 - kMaxEntries);
  registry.Clear();
  CHECK(registry.Now().refused == 0);
}

TEST_CASE("a registry that has left keys out says so once half of its room is free") {
  Registry registry(kPrefix, kOwn);
  const auto key = [](size_t i) { return kPrefix + "n" + std::to_string(i); };
  for (size_t i = 0; i < kMaxKeys; ++i) registry.Put(key(i), "noise");
  for (size_t i = 0; i < kMaxKeys; ++i) registry.Delete(key(i));
  CHECK_FALSE(registry.MissesSome());  // nothing was left out
  for (size_t i = 0; i <= kMaxKeys; ++i) registry.Put(key(i), "noise");
  CHECK(registry.full());
  CHECK_FALSE(registry.MissesSome());
  for (size_t i = 0; i < kMaxKeys / 2; ++i) registry.Delete(key(i));
  CHECK(registry.MissesSome());
  registry.Clear();
  CHECK_FALSE(registry.MissesSome());
}

TEST_CASE("a full registry still reports another daemon that has this node's name") {
  Registry registry(kPrefix, kOwn);
  for (size_t i = 0; i < kMaxKeys; ++i) {
    const std::string name = "n" + std::to_string(i);
    registry.Put(kPrefix + name, Text(name, "10.0.0.2:7701"));
  }
  registry.Put(kPrefix + "one-more", Text("one-more", "10.0.0.2:7701"));
  const uint64_t refused = registry.Now().refused;
  registry.Put(kPrefix + "east", Text("east", "10.0.0.9:7701"));
  CHECK(registry.holder() == Registry::Holder::kOther);
  CHECK(registry.held_by().address == "10.0.0.9:7701");
  registry.Put(ClaimKey(kPrefix, "east", "cc"), Text("east", "10.0.0.8:7701", "cc"));
  CHECK(registry.claims().size() == 1);
  registry.Put(kPrefix + "east", PrintValue(kOwn));
  CHECK(registry.holder() == Registry::Holder::kThis);
  registry.Delete(kPrefix + "east");
  CHECK(registry.holder() == Registry::Holder::kNone);
  CHECK(registry.Now().refused == refused);
}

TEST_CASE("the end of a prefix is the first key after all of its keys") {
  CHECK(EndOf("/a/") == "/a0");
  CHECK(EndOf("a\xff") == "b");
  CHECK(EndOf("\xff") == std::string(1, '\0'));
}

}  // namespace
}  // namespace onecopy::discovery
