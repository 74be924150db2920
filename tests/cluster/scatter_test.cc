// Transfers of many ranges, between real daemons, by the library and by the command line.
#include <algorithm>
#include <cstring>
#include <fstream>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/temp_folder.h"

namespace scatter_test {
namespace {

using onecopy::Client;
using onecopy::HostBuffer;
using onecopy::OutcomeOf;
using onecopy::RangePair;
using onecopy::Status;
using onecopy::TransferInfo;
using onecopy::TransferRequest;
using namespace onecopy::testing;

constexpr std::byte kUntouched{0xa7};

// Blocks that come in the opposite order, with gaps on both sides.
std::vector<RangePair> Blocks(uint64_t count, uint64_t bytes) {
  std::vector<RangePair> ranges;
  for (uint64_t i = 0; i < count; ++i) {
    ranges.push_back(
        {{i * (bytes + 5), bytes, 0, 1}, {(count - 1 - i) * (bytes + 3), bytes, 0, 1}});
  }
  return ranges;
}

// One payload with the bytes of another put in.
std::string Played(const std::string& source, std::string destination,
                   const std::vector<RangePair>& ranges) {
  for (const auto& [from, to, source_buffer, destination_buffer] : ranges) {
    std::string payload;
    for (uint64_t i = 0; i < from.count; ++i)
      payload += source.substr(from.offset + i * from.stride, from.bytes);
    for (uint64_t i = 0; i < to.count; ++i)
      destination.replace(to.offset + i * to.stride, to.bytes, payload, i * to.bytes, to.bytes);
  }
  return destination;
}

std::string JsonLine(const RangePair& pair) {
  const auto range = [](const onecopy::StridedRange& one) {
    Json json = {{"offset", one.offset}, {"bytes", one.bytes}};
    if (one.count > 1) {
      json["stride"] = one.stride;
      json["count"] = one.count;
    }
    return json;
  };
  return Json({{"source", range(pair.source)}, {"destination", range(pair.destination)}}).dump();
}

}  // namespace

TEST_CASE("ten thousand ranges are one transfer between nodes, on every path") {
  Pair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  constexpr uint64_t kBytes = 4'000'000;
  const HostBuffer source = Filled(east, "a", kBytes, 1);
  const HostBuffer destination = Must(west.CreateHostBuffer("b", kBytes));
  const std::vector<RangePair> ranges = Blocks(10'000, 300);
  const std::string expected =
      Played(Payload(kBytes, 1), std::string(kBytes, static_cast<char>(kUntouched)), ranges);
  for (const char* path : {"tcp-direct", "tcp-bounce", "tcp-staged"}) {
    INFO(path);
    std::memset(destination.data(), static_cast<int>(kUntouched), kBytes);
    TransferRequest request;
    request.source = source.endpoint();
    request.destination = {"west", "b", {}, {}};
    request.ranges = ranges;
    request.policy.path_glob = path;
    request.checksum = true;
    const TransferInfo done = Must(east.RunTransfer(request));
    REQUIRE_OK(OutcomeOf(done));
    CheckReceipt(done, {path, 3'000'000, true});
    CHECK(done.receipt.ranges == 10'000);
    CHECK(done.receipt.merged_ranges == 10'000);
    CHECK(std::memcmp(destination.data(), expected.data(), kBytes) == 0);
  }
}

TEST_CASE("a column is moved by a list on the command line, and explained") {
  Pair pair;
  const TempFolder folder;
  constexpr uint64_t kRows = 20'000;
  pair.east.Do({"buffer", "create", "a", "--size", "640000", "--memory", "host"});
  pair.west.Do({"buffer", "create", "b", "--size", "200000", "--memory", "host"});
  pair.east.Do({"cp", "-", "a"}, Payload(640'000, 2));
  const std::vector<RangePair> ranges = {{{8, 4, 32, kRows}, {100, 4 * kRows, 0, 1}},
                                         {{0, 50, 0, 1}, {0, 50, 0, 1}},
                                         {{50, 50, 0, 1}, {50, 50, 0, 1}}};
  const std::string list = folder / "ranges.jsonl";
  std::ofstream(list) << JsonLine(ranges[0]) << "\n\n"
                      << JsonLine(ranges[1]) << '\n'
                      << JsonLine(ranges[2]) << '\n';
  const Json plan = pair.east.Do({"explain", "a", "west:b", "--ranges", list});
  CHECK(plan.at("path") == "tcp-bounce");
  const Json receipt = pair.east.Do({"cp", "a", "west:b", "--ranges", list, "--checksum"});
  CHECK(receipt.at("state") == "SUCCEEDED");
  CHECK(receipt.at("bytes") == 4 * kRows + 100);
  CHECK(receipt.at("ranges") == 3);
  CHECK(receipt.at("merged_ranges") == 2);
  CHECK(receipt.at("path") == "tcp-bounce");
  CHECK(receipt.at("copies") == 4);
  CHECK(receipt.at("checksum").at("verified") == true);
  CHECK(receipt.at("source") == "east:a@0+639980");
  CHECK(receipt.at("destination") == "west:b@0+80100");
  CHECK(Contents(pair.west, "b") ==
        Played(Payload(640'000, 2), std::string(200'000, '\0'), ranges));
}

TEST_CASE("ranges of three buffers go to two of another node, as one transfer") {
  Pair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  constexpr uint64_t kBytes = 1'500'000;
  const HostBuffer a0 = Filled(east, "a0", kBytes, 1);
  const HostBuffer a1 = Filled(east, "a1", kBytes, 2);
  const HostBuffer a2 = Filled(east, "a2", kBytes, 3);
  const std::vector<HostBuffer> sinks = [&] {
    std::vector<HostBuffer> made;
    made.push_back(Filled(west, "b0", kBytes, 4));
    made.push_back(Filled(west, "b1", kBytes, 5));
    return made;
  }();
  std::vector<RangePair> ranges = Blocks(3'000, 300);
  for (uint32_t i = 0; i < ranges.size(); ++i) {
    ranges[i].source_buffer = i / 7 % 3;
    ranges[i].destination_buffer = i % 2;
  }
  // Regular ones, which the library folds.
  for (uint32_t i = 0; i < 1'000; ++i) {
    ranges.push_back({{1'000'000 + i * 40, 24, 0, 1}, {1'000'000 + i * 32, 24, 0, 1}, 2, 1});
  }
  std::vector<std::string> expected;
  for (uint32_t to = 0; to < 2; ++to) {
    expected.push_back(Payload(kBytes, 4 + to));
    for (uint32_t from = 0; from < 3; ++from) {
      std::vector<RangePair> of_these;
      std::copy_if(ranges.begin(), ranges.end(), std::back_inserter(of_these),
                   [&](const RangePair& range) {
                     return range.source_buffer == from && range.destination_buffer == to;
                   });
      expected[to] = Played(Payload(kBytes, 1 + from), expected[to], of_these);
    }
  }
  TransferRequest request;
  request.source = a0.endpoint();
  request.more_sources = {a1.endpoint(), a2.endpoint()};
  request.destination = {"west", "b0", {}, {}};
  request.more_destinations = {{"west", "b1", {}, {}}};
  request.ranges = ranges;
  CHECK(Must(east.PlanTransfer(request)).copies() > 0);
  const TransferInfo done = Must(east.RunTransfer(request));
  REQUIRE_OK(OutcomeOf(done));
  CheckReceipt(done, {done.receipt.path, 924'000, false});
  CHECK(done.receipt.ranges == 4'000);
  CHECK(done.source_buffers == 3);
  CHECK(done.destination_buffers == 2);
  CHECK(done.parts == 6);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(std::memcmp(sinks[i].data(), expected[i].data(), kBytes) == 0);
  }
  CHECK(Must(east.ListTransfers()).size() == 1);
  CHECK(Must(west.ListTransfers()).size() == 1);
  // By the command line, with names.
  const TempFolder folder;
  const std::string list = folder / "ranges.jsonl";
  std::ofstream(list)
      << R"({"source": {"offset": 0, "bytes": 9}, "destination": {"offset": 1, "bytes": 9}})"
      << '\n'
      << R"({"source": {"buffer": "a1", "offset": 5, "bytes": 7}, )"
      << R"("destination": {"buffer": "b1", "offset": 0, "bytes": 7}})" << '\n';
  const Json receipt = pair.east.Do({"cp", "a0", "west:b0", "--ranges", list, "--checksum"});
  CHECK(receipt.at("state") == "SUCCEEDED");
  CHECK(receipt.at("bytes") == 16);
  CHECK(receipt.at("ranges") == 2);
  CHECK(receipt.at("checksum").at("verified") == true);
  CHECK(Contents(pair.west, "b0@1+9") == Payload(kBytes, 1).substr(0, 9));
  CHECK(Contents(pair.west, "b1@0+7") == Payload(kBytes, 2).substr(5, 7));
}

TEST_CASE("bad ranges are refused before anything moves") {
  Pair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  const HostBuffer source = Filled(east, "a", 10'000, 3);
  const HostBuffer destination = Filled(west, "b", 10'000, 4);
  const auto refused = [&](const std::vector<RangePair>& ranges, const char* to = "b") {
    TransferRequest request;
    request.source = source.endpoint();
    request.destination = {std::string(to) == "b" ? "west" : "east", to, {}, {}};
    request.ranges = ranges;
    const Status status = east.StartTransfer(request).status();
    CHECK(!east.PlanTransfer(request).ok());
    return std::string(onecopy::CodeName(status.code())) + " " + status.reason();
  };
  constexpr uint64_t kHuge = ~uint64_t{0};
  CHECK(refused({{{9'999, 2, 0, 1}, {0, 2, 0, 1}}}) == "OUT_OF_RANGE RANGE_OUT_OF_BUFFER");
  CHECK(refused({{{0, 2, 0, 1}, {9'999, 2, 0, 1}}}) == "OUT_OF_RANGE RANGE_OUT_OF_BUFFER");
  CHECK(refused({{{0, 4, 2'000, 6}, {0, 24, 0, 1}}}) == "OUT_OF_RANGE RANGE_OUT_OF_BUFFER");
  CHECK(refused({{{kHuge, 4, 0, 1}, {0, 4, 0, 1}}}) == "OUT_OF_RANGE RANGE_OUT_OF_BUFFER");
  CHECK(refused({{{0, 4, kHuge / 2, 3}, {0, 12, 0, 1}}}) == "OUT_OF_RANGE RANGE_OUT_OF_BUFFER");
  CHECK(refused({{{0, 8, 4, 3}, {0, 24, 0, 1}}}) == "INVALID_ARGUMENT RANGES_OVERLAP");
  CHECK(refused({{{0, 24, 0, 1}, {0, 8, 4, 3}}}) == "INVALID_ARGUMENT RANGES_OVERLAP");
  CHECK(refused({{{0, 8, 0, 1}, {0, 8, 0, 1}}, {{8, 8, 0, 1}, {7, 8, 0, 1}}}) ==
        "INVALID_ARGUMENT RANGES_OVERLAP");
  CHECK(refused({{{0, 8, 0, 1}, {4, 8, 0, 1}}}, "a") == "INVALID_ARGUMENT RANGES_OVERLAP");
  CHECK(refused({{{0, 4, 32, 9}, {3, 4, 32, 9}}}, "a") == "INVALID_ARGUMENT RANGES_OVERLAP");
  CHECK(refused({{{0, 8, 0, 1}, {0, 9, 0, 1}}}) == "INVALID_ARGUMENT SIZE_MISMATCH");
  CHECK(refused({{{0, 0, 0, 1}, {0, 0, 0, 1}}}) == "INVALID_ARGUMENT BAD_SIZE");
  CHECK(IsPayload(destination.data(), 10'000, 4));
  CHECK(IsPayload(source.data(), 10'000, 3));
}

// What moves short ranges of GPUs: the kernel, unless the daemon was built without nvcc, which it
// says.
std::string Scatterer(const Node& node) {
  const Json shown = node.Do({"node", "show"});
  for (const Json& memory : shown.at("memories")) {
    if (memory.at("kind") == "cuda" && memory.at("attributes").contains("kernels")) {
      return "copy-engine";
    }
  }
  return "gpu-kernel";
}

TEST_CASE("GPU memory is gathered and scattered by the kernel, on each path of GPUs") {
  // However busy this machine is, which looks like a busy GPU.
  const std::string fake =
      "[libraries]\ncuda = \"" + FakeCudaPath() + "\"\n[cuda]\nscatter = \"kernel\"\n";
  Pair pair(fake);
  const std::string scatterer = Scatterer(pair.east);
  constexpr uint64_t kBytes = 3'000'000;
  pair.east.Do({"buffer", "create", "a", "--size", std::to_string(kBytes), "--memory", "cuda:0"});
  pair.east.Do({"buffer", "create", "c", "--size", std::to_string(kBytes), "--memory", "cuda:1"});
  pair.west.Do({"buffer", "create", "b", "--size", std::to_string(kBytes), "--memory", "cuda:1"});
  pair.east.Do({"cp", "-", "a"}, Payload(kBytes, 5));
  const TempFolder folder;
  std::vector<RangePair> ranges = Blocks(100, 12'345);
  ranges.push_back({{1'300'000, 4, 32, 50'000}, {1'300'001, 8, 12, 25'000}});
  const std::string list = folder / "ranges.jsonl";
  {
    std::ofstream file(list);
    for (const RangePair& pair_of : ranges) file << JsonLine(pair_of) << '\n';
  }
  struct Case {
    std::string to;
    std::string path;
    size_t copies;
  };
  for (const Case& one : {Case{"c", "peer-direct", 1},
                          {"c", "peer-bounce", 2},
                          {"west:b", "peer-direct", 1},
                          {"west:b", "tcp-staged", 5}}) {
    INFO(one.to << " by " << one.path);
    const Node& node = one.to == "c" ? pair.east : pair.west;
    const std::string name = one.to == "c" ? "c" : "b";
    node.Do({"cp", "-", name}, Payload(kBytes, 6));
    const Json receipt =
        pair.east.Do({"cp", "a", one.to, "--ranges", list, "--path", one.path, "--checksum"});
    CHECK(receipt.at("path") == one.path);
    CHECK(receipt.at("copies") == one.copies);
    CHECK(receipt.at("ranges") == 101);
    CHECK(receipt.at("checksum").at("verified") == true);
    CHECK(receipt.at("steps").front().at("by") == scatterer);
    CHECK(receipt.at("steps").back().at("by") == scatterer);
    CHECK(Contents(node, name) == Played(Payload(kBytes, 5), Payload(kBytes, 6), ranges));
  }
}
}  // namespace scatter_test
