// Heads of safetensors files, and indexes of several: what is taken, and at what cost. Against the
// format's own library they are tested in tests/python.
#include "client/formats/safetensors.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <vector>

#include "client/formats/safetensors_index.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"

namespace safetensors_test {
namespace {

using onecopy::Code;
using onecopy::formats::kMaxTensors;
using onecopy::formats::ParseSafetensors;
using onecopy::formats::ParseSafetensorsIndex;
using onecopy::formats::SafetensorsHeader;

namespace reasons = onecopy::reasons;

const std::string kOne = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";

// Of a file with so many bytes behind the head.
onecopy::Result<SafetensorsHeader> Parse(const std::string& text, uint64_t payload = 1) {
  return ParseSafetensors(text, 8 + text.size() + payload, "some.safetensors");
}

// Of the processor, at best: others may have it meanwhile.
double Seconds(const std::function<void()>& call) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const std::clock_t begin = std::clock();
    call();
    best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return best;
}

// A list of so many elements, each of what `element` gives.
std::string List(size_t count, const std::function<std::string(size_t)>& element) {
  std::string list;
  for (size_t i = 0; i < count; ++i) list += (i == 0 ? "" : ",") + element(i);
  return list;
}

}  // namespace

TEST_CASE("what the format's library takes is taken") {
  for (const std::string& text : std::vector<std::string>{
           R"({"a":)" + kOne + "}", R"(  {"a":)" + kOne + "} \n",
           R"({"__metadata__":null,"a":)" + kOne + "}", R"({"a":["U8",[1],[0,1]]})",
           R"({"a":{"dtype":{"U8":null},"shape":[1],"data_offsets":[0,1]}})",
           R"({"a":{"more":[{"x":[1e3]},null],"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
           R"({"a":{"dtype":"F64","shape":[9],"data_offsets":[7,3]},"a":)" + kOne + "}"}) {
    INFO(text);
    const auto header = Parse(text);
    REQUIRE(header.ok());
    REQUIRE(header->tensors.size() == 1);
    CHECK(header->tensors[0].name == "a");
    CHECK(header->tensors[0].dtype == "U8");
    CHECK(header->tensors[0].shape == std::vector<uint64_t>{1});
    CHECK(header->payload_offset == 8 + text.size());
    CHECK(header->metadata.empty());
  }
  const auto header = Parse(R"({"__metadata__":{"b":"1","a":"2","b":"3"}})", 0);
  REQUIRE(header.ok());
  CHECK(header->metadata ==
        std::vector<std::pair<std::string, std::string>>{{"a", "2"}, {"b", "3"}});
}

TEST_CASE("what it refuses is refused") {
  const std::string head = R"({"a":)" + kOne + "}";
  for (const std::string& text : std::vector<std::string>{
           std::string(), head + std::string(2, '\0'), "\xef\xbb\xbf" + head, std::string("[]"),
           std::string("null"), R"({"\ud800":)" + kOne + "}",
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[-0,1]}})",
           R"({"a":{"dtype":"U8","shape":[4611686018427387904,4,0],"data_offsets":[0,0]}})",
           R"({"a":1,"a":)" + kOne + "}",
           R"({"__metadata__":{},"__metadata__":{},"a":)" + kOne + "}",
           R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
           R"({"a":{"x":)" + std::string(126, '[') + std::string(126, ']') +
               R"(,"dtype":"U8","shape":[1],"data_offsets":[0,1]}})"}) {
    INFO(text.substr(0, 100));
    const auto header = Parse(text);
    REQUIRE_FALSE(header.ok());
    CHECK(header.status().code() == Code::kInvalidArgument);
    CHECK(header.status().reason() == reasons::kBadFormat);
    CHECK(header.status().message().size() < 1000);
  }
}

TEST_CASE("time is in proportion to the head") {
  const std::vector<std::pair<std::string, std::function<std::string(size_t)>>> heads = {
      {"names",
       [](size_t n) {
         return "{" + List(n, [](size_t i) { return '"' + std::to_string(i) + "\":" + kOne; }) +
                "}";
       }},
      {"one name",
       [](size_t n) { return "{" + List(n, [](size_t) { return R"("a":)" + kOne; }) + "}"; }},
      {"metadata",
       [](size_t n) {
         return R"({"__metadata__":{)" +
                List(n, [](size_t i) { return '"' + std::to_string(i) + R"(":"")"; }) + "}}";
       }},
      {"fields", [](size_t n) {
         return R"({"a":{)" +
                List(n, [](size_t i) { return '"' + std::to_string(i) + R"(":[])"; }) + "}}";
       }}};
  for (const auto& [what, head] : heads) {
    INFO(what);
    const std::string small = head(5'000);
    const std::string large = head(20'000);
    CHECK(Seconds([&] { static_cast<void>(Parse(large)); }) <
          12 * Seconds([&] { static_cast<void>(Parse(small)); }) + 0.005);
  }
}

TEST_CASE("more than any file has is refused") {
  CHECK_FALSE(Parse(R"({"a":{"dtype":"U8","shape":[)" + List(5'000, [](size_t) { return "1"; }) +
                    R"(],"data_offsets":[0,1]}})")
                  .ok());
  const std::string empty = R"(["U8",[0],[0,0]])";
  const auto most =
      Parse("{" + List(kMaxTensors, [&](size_t) { return R"("":)" + empty; }) + "}", 0);
  REQUIRE(most.ok());
  CHECK(most->tensors.size() == 1);
  CHECK_FALSE(
      Parse("{" + List(kMaxTensors + 1, [&](size_t) { return R"("":)" + empty; }) + "}", 0).ok());
}

TEST_CASE("an index tells of each tensor's file") {
  const auto files = ParseSafetensorsIndex(
      R"({"metadata":{"total_size":1,"deep":[[{"weight_map":1}]]},"weight_map":{"a":"1","b":"sub/2","a":"3"},"x":null})",
      "i");
  REQUIRE(files.ok());
  CHECK(*files ==
        std::vector<std::pair<std::string, std::string>>{{"a", "1"}, {"b", "sub/2"}, {"a", "3"}});
  for (const std::string& file : std::vector<std::string>{"", ".", "..", "/a", "a/", "../a",
                                                          "a/../b", "a//b", "./a", "a\\u0000b"}) {
    INFO(file);
    const auto refused = ParseSafetensorsIndex(R"({"weight_map":{"a":")" + file + R"("}})", "i");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.status().reason() == reasons::kBadFormat);
  }
  for (const std::string& text : std::vector<std::string>{
           "", "[]", "1", "{}", R"({"weight_map":{}})", R"({"weight_map":[]})",
           R"({"weight_map":"a"})", R"({"weight_map":{"a":1}})", R"({"weight_map":{"a":{}}})",
           R"({"weight_map":{"a":["b"]}})", R"({"weight_map":{"a":"b"})",
           "\xef\xbb\xbf{\"weight_map\":{\"a\":\"b\"}}"}) {
    INFO(text);
    CHECK_FALSE(ParseSafetensorsIndex(text, "i").ok());
  }
  CHECK_FALSE(
      ParseSafetensorsIndex(R"({"weight_map":{"a":"b"}})" + std::string(1, '\0'), "i").ok());
}
}  // namespace safetensors_test
