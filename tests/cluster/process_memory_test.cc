// Ordinary memory of a process as buffers: moved by the library's threads, at either end.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "onecopy/file_copy.h"
#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"

namespace process_memory_test {
namespace {

using onecopy::BufferInfo;
using onecopy::Client;
using onecopy::MemoryAccess;
using onecopy::Receipt;
using onecopy::Status;
using onecopy::TransferInfo;
using onecopy::TransferRequest;
using onecopy::TransferState;
using namespace onecopy::testing;

// Larger than a slab, and no multiple of its slots.
constexpr uint64_t kBytes = (uint64_t{70} << 20) + 12'345;

// Memory of malloc that is a buffer of `client`; it is one no more when this ends.
class Array {
 public:
  Array(Client& client, const std::string& name, uint64_t bytes, std::optional<uint64_t> seed = {},
        MemoryAccess access = MemoryAccess::kReadWrite)
      : client_(client), bytes_(bytes) {
    if (seed) {
      const std::string payload = Payload(bytes, *seed);
      std::copy(payload.begin(), payload.end(), bytes_.begin());
    }
    info_ = Must(client.RegisterMemory(name, bytes_.data(), bytes, access));
  }
  ~Array() { Must(client_.DeleteBuffer(info_.id)); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  const BufferInfo& info() const { return info_; }
  bool Has(uint64_t seed) const {
    return IsPayload(reinterpret_cast<const std::byte*>(bytes_.data()), bytes_.size(), seed);
  }
  std::vector<char>& bytes() { return bytes_; }

 private:
  Client& client_;
  std::vector<char> bytes_;
  BufferInfo info_;
};

// "process>slab by client, slab>kernel by cpu, …".
std::string StepsOf(const Receipt& receipt) {
  std::string text;
  for (const auto& one : receipt.steps) {
    if (one.bytes == 0) continue;
    text += (text.empty() ? "" : ", ") + one.step.from + ">" + one.step.to + " by " + one.step.by;
  }
  return text;
}

TransferInfo Move(Client& client, const std::string& from_node, const std::string& from,
                  const std::string& to_node, const std::string& to, bool checksum = true) {
  TransferInfo done = Must(client.RunTransfer({.source = {from_node, from, {}, {}},
                                               .destination = {to_node, to, {}, {}},
                                               .checksum = checksum}));
  INFO(done.error.ToString());
  REQUIRE(done.state == TransferState::kSucceeded);
  CHECK((!checksum || done.receipt.checksum->verified));
  return done;
}

}  // namespace

TEST_CASE("an array is a buffer of host memory, which says what it is") {
  Node east("east");
  Client client = east.Connect();
  const Array array(client, "array", 5000);
  CHECK(array.info().memory == "host");
  CHECK(array.info().form == "process");
  CHECK(array.info().registered);
  CHECK(array.info().bytes == 5000);
  CHECK(Must(client.GetBuffer("", "array")).form == "process");
  CHECK(Must(client.CreateHostBuffer("shared", 4096)).info().form == "memfd");
}

TEST_CASE("arrays of two nodes are moved, whoever asks, and the receipt has each pass") {
  Pair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  const Array from(east, "a", kBytes, 7);
  const Array to(west, "b", kBytes);
  // The destination's client asks, then the source's.
  const std::string expected =
      "process>slab by client, slab>kernel by cpu, kernel>kernel by wire, kernel>slab by cpu, "
      "slab>process by client";
  const TransferInfo pulled = Move(west, "east", "a", "", "b");
  CHECK(pulled.receipt.path == "tcp-staged");
  CHECK(StepsOf(pulled.receipt) == expected);
  CHECK(to.Has(7));
  const Array next(east, "c", kBytes, 8);
  const TransferInfo pushed = Move(east, "", "c", "west", "b");
  CHECK(StepsOf(pushed.receipt) == expected);
  CHECK(to.Has(8));
  // What a better path would take is in the receipt.
  const auto& refused = pushed.receipt.refused;
  const auto direct = std::find_if(refused.begin(), refused.end(),
                                   [](const auto& one) { return one.path == "tcp-direct"; });
  REQUIRE(direct != refused.end());
  CHECK(direct->remedy.find("HostBuffer") != std::string::npos);
}

TEST_CASE("an array and shared memory of two nodes take one copy more than shared memory alone") {
  Pair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  const onecopy::HostBuffer shared = Filled(east, "shared", kBytes, 3);
  const Array array(west, "array", kBytes);
  const TransferInfo in = Move(west, "east", "shared", "", "array");
  CHECK(in.receipt.path == "tcp-bounce");
  CHECK(in.receipt.copies() == 4);
  CHECK(array.Has(3));
  const Array other(west, "other", kBytes, 4);
  const TransferInfo out = Move(west, "", "other", "east", "shared");
  CHECK(out.receipt.copies() == 4);
  CHECK(IsPayload(shared.data(), kBytes, 4));
  const auto refused = west.RunTransfer({.source = {"", "other", {}, {}},
                                         .destination = {"east", "shared", {}, {}},
                                         .policy = {.at_most_copies = 3}});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().reason() == "POLICY_UNMET");
}

TEST_CASE("inside a node an array takes a pass through its client's slab") {
  Node east("east");
  Client one = east.Connect();
  Client two = east.Connect();
  const onecopy::HostBuffer shared = Filled(one, "shared", kBytes, 3);
  Array array(one, "array", kBytes);
  CHECK(StepsOf(Move(one, "", "shared", "", "array").receipt) ==
        "host>slab by cpu, slab>process by client");
  CHECK(array.Has(3));
  std::memset(shared.data(), 0, kBytes);
  CHECK(StepsOf(Move(two, "", "array", "", "shared").receipt) ==
        "process>slab by client, slab>host by cpu");
  CHECK(IsPayload(shared.data(), kBytes, 3));
  // Between two clients each one's slab, between arrays of one client only that.
  const Array theirs(two, "theirs", kBytes);
  const TransferInfo between = Move(two, "", "array", "", "theirs");
  CHECK(between.receipt.path == "peer-bounce");
  CHECK(StepsOf(between.receipt) ==
        "process>slab by client, slab>slab by cpu, slab>process by client");
  CHECK(theirs.Has(3));
  const Array mine(one, "mine", kBytes);
  CHECK(StepsOf(Move(one, "", "array", "", "mine").receipt) ==
        "process>slab by client, slab>process by client");
  CHECK(mine.Has(3));
  const auto refused = one.RunTransfer({.source = {"", "array", {}, {}},
                                        .destination = {"", "shared", {}, {}},
                                        .policy = {.at_most_copies = 1}});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().reason() == "POLICY_UNMET");
}

TEST_CASE("small transfers, pieces of arrays and strided ranges arrive where they belong") {
  Pair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  Array from(east, "a", 100'000, 5);
  Array to(west, "b", 100'000);
  for (uint64_t i = 0; i < 20; ++i) {  // the second time would go by a ring
    Must(west.RunTransfer(
        {.source = {"east", "a", i * 1000, 1000}, .destination = {"", "b", i * 1000 + 1, 1000}}));
  }
  CHECK(std::equal(from.bytes().begin(), from.bytes().begin() + 20'000, to.bytes().begin() + 1));
  CHECK(to.bytes()[0] == 0);
  CHECK(to.bytes()[20'001] == 0);
  TransferRequest strided{.source = {"east", "a", {}, {}}, .destination = {"", "b", {}, {}}};
  strided.ranges = {{.source = {.offset = 8, .bytes = 4, .stride = 32, .count = 1000},
                     .destination = {.offset = 50'001, .bytes = 4000}}};
  const TransferInfo done = Must(west.RunTransfer(strided));
  INFO(done.error.ToString());
  REQUIRE(done.state == TransferState::kSucceeded);
  for (size_t i = 0; i < 1000; ++i) {
    REQUIRE(std::memcmp(&from.bytes()[8 + 32 * i], &to.bytes()[50'001 + 4 * i], 4) == 0);
  }
}

TEST_CASE("a part of an array goes into a part of a file, and back") {
  const Node east("east");
  const TempFolder folder;
  Client client = east.Connect();
  const Array array(client, "a", 4096, 1);
  const onecopy::Endpoint part{.buffer = "a", .offset_bytes = 80, .bytes = 100};
  const onecopy::LocalFile file{.path = folder / "f", .offset_bytes = 5};
  WriteFile(file.path, Payload(1000, 2));
  Must(onecopy::CopyBufferToFile(client, part, file));
  CHECK(ReadFile(file.path) == Payload(1000, 2).replace(5, 100, Payload(4096, 1).substr(80, 100)));
  const Array other(client, "o", 4096, 3);
  Must(onecopy::CopyFileToBuffer(client, file, {.buffer = "o", .offset_bytes = 80, .bytes = 995}));
  CHECK(std::string(const_cast<Array&>(other).bytes().data() + 80, 100) ==
        Payload(4096, 1).substr(80, 100));
}

TEST_CASE("what was registered to be read is not written") {
  Node east("east");
  Client client = east.Connect();
  const onecopy::HostBuffer shared = Filled(client, "shared", 5000, 3);
  const Array array(client, "array", 5000, 9, MemoryAccess::kRead);
  Move(client, "", "array", "", "shared");
  CHECK(IsPayload(shared.data(), 5000, 9));
  std::memset(shared.data(), 0, 5000);
  const auto done =
      client.RunTransfer({.source = {"", "shared", {}, {}}, .destination = {"", "array", {}, {}}});
  const Status why = done.ok() ? done->error : done.status();
  CHECK(why.code() == onecopy::Code::kPermissionDenied);
  CHECK(why.remedy().find("kReadWrite") != std::string::npos);
  CHECK(array.Has(9));
}

TEST_CASE("many transfers of one client's arrays at once share its slab") {
  Pair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  const Array from(east, "a", kBytes / 8, 5);
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<Array>> to;
  for (int i = 0; i < 6; ++i) {
    to.push_back(std::make_unique<Array>(west, "b" + std::to_string(i), kBytes / 8));
  }
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&west, i] { Move(west, "east", "a", "", "b" + std::to_string(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& array : to) CHECK(array->Has(5));
}

TEST_CASE("memory that is unmapped while it is registered fails its transfers alone") {
  Node east("east");
  Client client = east.Connect();
  const onecopy::HostBuffer shared = Filled(client, "shared", kBytes, 3);
  void* const gone =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(gone != MAP_FAILED);
  Must(client.RegisterMemory("gone", gone, kBytes));
  const Array other(client, "other", kBytes);
  REQUIRE(::munmap(static_cast<char*>(gone) + (8 << 20), 4096) == 0);
  for (const bool out : {true, false}) {
    const char* const from = out ? "gone" : "shared";
    const char* const to = out ? "shared" : "gone";
    const auto done =
        client.RunTransfer({.source = {"", from, {}, {}}, .destination = {"", to, {}, {}}});
    const Status why = done.ok() ? done->error : done.status();
    INFO(why.ToString());
    CHECK(why.reason() == "MEMORY_FAULT");
    CHECK(why.code() == onecopy::Code::kAborted);
  }
  Must(client.DeleteBuffer("gone"));
  Move(client, "", "shared", "", "other");
  REQUIRE(::munmap(gone, kBytes) == 0);
  // Nor can what is not there be registered.
  const Status refused = client.RegisterMemory("none", gone, kBytes).status();
  CHECK(refused.reason() == "BAD_HANDLE");
  CHECK(client.RegisterMemory("none", nullptr, 10).status().reason() == "BAD_HANDLE");
  char byte = 0;
  CHECK(client.RegisterMemory("none", &byte, 0).status().reason() == "BAD_SIZE");
}
}  // namespace process_memory_test
