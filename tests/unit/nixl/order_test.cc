#include "client/nixl/order.h"

#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;
using namespace onecopy::nixl;

namespace {

const nixl::Place kHere{"", "here", 0x1000};
const nixl::Place kAlsoHere{"", "also-here", 0x9000};
const nixl::Place kThere{"west", "there", 0x5000};

}  // namespace

TEST_CASE("one descriptor is a transfer with its length at its ends") {
  const std::vector<Piece> local = {{&kHere, 0x1010, 16}};
  const std::vector<Piece> remote = {{&kThere, 0x5004, 16}};
  const Endpoint here{.buffer = "here", .offset_bytes = 16};
  const Endpoint there{.node = "west", .buffer = "there", .offset_bytes = 4};
  SECTION("written") {
    const auto made = MakeRequests(abi::Operation::kWrite, local, remote, {.link = "tcp"});
    REQUIRE_OK(made);
    REQUIRE(made->size() == 1);
    CHECK(made->front().source.buffer == "here");
    CHECK(made->front().source.offset_bytes == 16);
    CHECK(made->front().source.bytes == 16);
    CHECK(made->front().destination == there);
    CHECK(made->front().policy.link == "tcp");
    CHECK(made->front().ranges.empty());
  }
  SECTION("read") {
    const auto made = MakeRequests(abi::Operation::kRead, local, remote, {});
    REQUIRE_OK(made);
    REQUIRE(made->size() == 1);
    CHECK(made->front().source.node == "west");
    CHECK(made->front().source.bytes == 16);
    CHECK(made->front().destination == here);
  }
}

TEST_CASE("descriptors of several buffers are one transfer, by pairs, and neighbours one range") {
  const auto made = MakeRequests(abi::Operation::kWrite,
                                 {{&kHere, 0x1000, 8},
                                  {&kHere, 0x1008, 8},
                                  {&kAlsoHere, 0x9000, 4},
                                  {&kHere, 0x1020, 8},
                                  {&kHere, 0x1030, 0}},
                                 {{&kThere, 0x5000, 8},
                                  {&kThere, 0x5008, 8},
                                  {&kThere, 0x5040, 4},
                                  {&kThere, 0x5030, 8},
                                  {&kThere, 0x5038, 0}},
                                 {});
  REQUIRE_OK(made);
  REQUIRE(made->size() == 1);
  const TransferRequest& all = made->front();
  CHECK(all.source == Endpoint{.buffer = "here"});
  CHECK(all.destination == Endpoint{.node = "west", .buffer = "there"});
  CHECK(all.more_sources == std::vector<Endpoint>{{.buffer = "also-here"}});
  CHECK(all.more_destinations.empty());
  CHECK(all.ranges == std::vector<RangePair>{
                          {{0, 16}, {0, 16}}, {{0x20, 8}, {0x30, 8}}, {{0, 4}, {0x40, 4}, 1, 0}});
}

TEST_CASE("more buffers or pairs than a request takes are several requests") {
  std::vector<nixl::Place> places(kMaxBuffers + 1);
  for (size_t i = 0; i < places.size(); ++i) places[i] = {"", "b" + std::to_string(i), 0x1000};
  std::vector<Piece> local;
  for (const nixl::Place& place : places) local.push_back({&place, 0x1000, 1});
  std::vector<Piece> remote;
  SECTION("to one") { remote.resize(local.size(), {&kThere, 0x5000, 1}); }
  SECTION("to as many") { remote = local; }
  for (size_t i = 0; i < remote.size(); ++i) {
    if (remote[i].place == &kThere) remote[i].address += i;
  }
  const auto made = MakeRequests(abi::Operation::kWrite, local, remote, {});
  REQUIRE_OK(made);
  REQUIRE(made->size() == 2);
  CHECK(made->front().more_sources.size() == kMaxBuffers - 1);
  CHECK(made->front().ranges.size() == kMaxBuffers);
  CHECK(made->front().ranges.back().source_buffer == kMaxBuffers - 1);
  CHECK(made->back().source.buffer == "b" + std::to_string(kMaxBuffers));
  CHECK(made->back().source.bytes == 1);
  CHECK(made->back().more_sources.empty());
}

TEST_CASE("other nodes are other requests") {
  const nixl::Place elsewhere{"north", "there", 0x5000};
  const auto made = MakeRequests(abi::Operation::kWrite, {{&kHere, 0x1000, 8}, {&kHere, 0x1100, 8}},
                                 {{&kThere, 0x5000, 8}, {&elsewhere, 0x5000, 8}}, {});
  REQUIRE_OK(made);
  REQUIRE(made->size() == 2);
  CHECK(made->front().destination.node == "west");
  CHECK(made->back().destination.node == "north");
}

TEST_CASE("more ranges than a request takes are several requests") {
  std::vector<Piece> local;
  std::vector<Piece> remote;
  for (uintptr_t i = 0; i <= kMaxRanges; ++i) {
    local.push_back({&kHere, 0x1000 + 2 * i, 1});
    remote.push_back({&kThere, 0x5000 + 3 * i, 1});
  }
  const auto made = MakeRequests(abi::Operation::kRead, local, remote, {});
  REQUIRE_OK(made);
  REQUIRE(made->size() == 2);
  CHECK(made->front().ranges.size() == kMaxRanges);
  CHECK(made->back().source.offset_bytes == 3 * kMaxRanges);
}

TEST_CASE("descriptors that do not fit each other are refused") {
  const auto reason = [](const std::vector<Piece>& local, const std::vector<Piece>& remote) {
    return MakeRequests(abi::Operation::kWrite, local, remote, {}).status().reason();
  };
  CHECK(reason({{&kHere, 0x1000, 8}}, {}) == reasons::kSizeMismatch);
  CHECK(reason({{&kHere, 0x1000, 8}}, {{&kThere, 0x5000, 9}}) == reasons::kSizeMismatch);
  CHECK(reason({{&kHere, 0xfff, 8}}, {{&kThere, 0x5000, 8}}) == reasons::kRangeOutOfBuffer);
  CHECK(reason({{&kHere, 0x1000, 8}}, {{&kThere, 0x4fff, 8}}) == reasons::kRangeOutOfBuffer);
  const nixl::Place nowhere{"", "", 0x1000};
  CHECK(reason({{&nowhere, 0x1000, 8}}, {{&kThere, 0x5000, 8}}) == reasons::kRangeOutOfBuffer);
}

TEST_CASE("descriptors without bytes ask for nothing, wherever they lie") {
  const nixl::Place nowhere{"", "", 0x9000};
  const auto made = [](const std::vector<Piece>& local, const std::vector<Piece>& remote) {
    const auto requests = MakeRequests(abi::Operation::kWrite, local, remote, {});
    REQUIRE_OK(requests);
    return requests->size();
  };
  CHECK(made({}, {}) == 0);
  CHECK(made({{&kHere, 0x1000, 0}}, {{&nowhere, 0x9000, 0}}) == 0);
  CHECK(made({{&kHere, 0x1000, 0}, {&kHere, 0x1000, 4}},
             {{&nowhere, 0x9000, 0}, {&kThere, 0x5000, 4}}) == 1);
}
