// What arrives in buffers, and messages, between real daemons: in order, never before the bytes.
#include "onecopy/arrival.h"

#include <atomic>
#include <sstream>
#include <thread>

#include "onecopy/reasons.h"
#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/cluster/users.h"
#include "tests/support/catch.h"

namespace arrivals_test {
namespace {

using namespace onecopy;
using namespace onecopy::testing;
using namespace std::chrono_literals;

constexpr uint64_t kSlotBytes = 300'001;
constexpr auto kLong = 60s;

ArrivalWatch WatchOf(Client& client, const std::string& buffer = {}) {
  return Must(client.WatchArrivals(buffer));
}

// The next one that has a message.
Arrival NextMessage(ArrivalWatch& watch) {
  for (;;) {
    for (Arrival& arrival : Must(watch.Wait({}, kLong, 1)).arrivals) {
      if (!arrival.message.empty()) return std::move(arrival);
    }
  }
}

// The lines of --json.
std::vector<Json> Lines(const std::string& out) {
  std::vector<Json> lines;
  std::istringstream text(out);
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

}  // namespace

TEST_CASE("whoever is told of a transfer finds its bytes, whatever else is under way") {
  constexpr size_t kWriters = 3;
  constexpr uint64_t kRounds = 30;
  Pair pair;
  Client reader = pair.west.Connect();
  auto memory = Must(reader.CreateHostBuffer("slots", kWriters * kSlotBytes));
  ArrivalWatch watch = WatchOf(reader);
  std::atomic<size_t> failed = 0;
  const auto write = [&](size_t writer) {
    Client client = pair.east.Connect();
    const std::string name = "writer-" + std::to_string(writer);
    auto from = Must(client.CreateHostBuffer(name, kSlotBytes));
    ArrivalWatch answers = WatchOf(client, name);
    for (uint64_t round = 1; round <= kRounds; ++round) {
      const std::string payload = Payload(kSlotBytes, writer * 1000 + round);
      std::copy_n(reinterpret_cast<const std::byte*>(payload.data()), kSlotBytes, from.data());
      TransferRequest request{.source = from.endpoint(),
                              .destination = {"west", "slots", writer * kSlotBytes, kSlotBytes}};
      request.message = std::to_string(round);
      const auto done = client.RunTransfer(request);
      if (!done.ok() || done->state != TransferState::kSucceeded) ++failed;
      // Its own memory is not written again before the reader has looked.
      if (NextMessage(answers).message != request.message) ++failed;
    }
  };
  std::vector<std::thread> writers;
  for (size_t i = 0; i < kWriters; ++i) writers.emplace_back(write, i);

  std::map<uint64_t, uint64_t> rounds;
  for (uint64_t i = 0; i < kWriters * kRounds; ++i) {
    const Arrival arrival = NextMessage(watch);
    const uint64_t writer = arrival.range.offset / kSlotBytes;
    const uint64_t round = ++rounds[writer];
    CHECK(arrival.message == std::to_string(round));
    CHECK(arrival.bytes == kSlotBytes);
    CHECK(IsPayload(memory.data() + arrival.range.offset, kSlotBytes, writer * 1000 + round));
    Must(reader.SendMessage(
        {.destination = {.node = "east", .buffer = "writer-" + std::to_string(writer)},
         .message = arrival.message}));
  }
  for (std::thread& writer : writers) writer.join();
  CHECK(failed == 0);
  CHECK(Must(watch.Poll()).arrivals.empty());
}

TEST_CASE("who has read from another node tells its owner, who may then write again") {
  constexpr uint64_t kRounds = 30;
  Pair pair;
  Client owner = pair.east.Connect();
  Client reader = pair.west.Connect();
  auto source = Must(owner.CreateHostBuffer("source", kSlotBytes));
  auto copy = Must(reader.CreateHostBuffer("copy", kSlotBytes));
  ArrivalWatch told = WatchOf(owner, "source");
  for (uint64_t round = 1; round <= kRounds; ++round) {
    const std::string payload = Payload(kSlotBytes, round);
    std::copy_n(reinterpret_cast<const std::byte*>(payload.data()), kSlotBytes, source.data());
    std::thread reads([&] {
      const auto done =
          Must(reader.RunTransfer({.source = {"east", "source"}, .destination = copy.endpoint()}));
      if (done.state != TransferState::kSucceeded) return;
      Must(reader.SendMessage({.destination = {"east", "source"}, .message = "read"}));
    });
    CHECK(NextMessage(told).message == "read");
    std::fill_n(source.data(), kSlotBytes, std::byte{0xee});
    reads.join();
    CHECK(IsPayload(copy.data(), kSlotBytes, round));
  }
}

TEST_CASE(
    "what one writer does one after another is told in that order, messages and bytes alike") {
  constexpr int kEach = 60;
  Pair pair;
  Client writer = pair.east.Connect();
  Client reader = pair.west.Connect();
  auto from = Filled(writer, "from", 4096, 1);
  auto to = Must(reader.CreateHostBuffer("to", 4096));
  ArrivalWatch watch = WatchOf(reader, "to");
  for (int i = 0; i < kEach; ++i) {
    if (i % 2 == 0) {
      Must(writer.SendMessage({.destination = {"west", "to"}, .message = std::to_string(i)}));
    } else {
      Must(writer.RunTransfer({.source = from.endpoint(0, 512),
                               .destination = {"west", "to"},
                               .message = std::to_string(i)}));
    }
  }
  uint64_t sequence = 0;
  for (int i = 0; i < kEach; ++i) {
    const Arrival arrival = NextMessage(watch);
    CHECK(arrival.message == std::to_string(i));
    CHECK(arrival.transfer.empty() == (i % 2 == 0));
    if (i > 0) CHECK(arrival.sequence == sequence + 1);
    sequence = arrival.sequence;
  }
}

TEST_CASE("a buffer that keeps arrivals loses none between readers that come and go") {
  Pair pair;
  pair.west.Do({"buffer", "create", "inbox", "--size", "4096", "--keep-arrivals"});
  CHECK(pair.west.Do({"buffer", "show", "inbox"}).at("keep_arrivals") == true);
  Client writer = pair.east.Connect();
  const auto tell = [&](int i) {
    Must(writer.SendMessage({.destination = {"west", "inbox"}, .message = std::to_string(i)}));
  };
  uint64_t seen = 0;   // the sequence of the last one that was taken
  uint64_t dealt = 0;  // of the last one that a reader closed its watch after
  for (int reader = 0; reader < 6; ++reader) {
    for (int i = 1; i <= 10; ++i) tell(reader * 10 + i);
    Client client = pair.west.Connect();
    ArrivalWatch watch = WatchOf(client, "inbox");
    Arrival arrival = NextMessage(watch);
    // Some may be told again where the reader before went without a word, and none is left out.
    CHECK(arrival.sequence > dealt);
    CHECK(arrival.sequence <= seen + 1);
    for (;;) {
      CHECK(arrival.message == std::to_string(arrival.sequence));
      if (arrival.message == std::to_string(reader * 10 + 10)) break;
      const uint64_t before = arrival.sequence;
      arrival = NextMessage(watch);
      CHECK(arrival.sequence == before + 1);
    }
    seen = arrival.sequence;
    if (reader % 2 == 1) continue;
    Must(watch.Close());
    dealt = seen;
  }
  CHECK(seen == 60);
}

TEST_CASE("a reader that does not ask has writers refused, by a limit that is named") {
  Pair pair("[limits]\narrivals_per_buffer = 8\n");
  Client writer = pair.east.Connect();
  Client reader = pair.west.Connect();
  auto from = Filled(writer, "from", 64, 1);
  auto to = Must(reader.CreateHostBuffer("to", 64));
  ArrivalWatch watch = WatchOf(reader, "to");
  TransferRequest request{.source = from.endpoint(), .destination = {"west", "to"}};
  request.message = "m";
  for (int i = 0; i < 8; ++i) Must(writer.RunTransfer(request));
  const Status full = writer.RunTransfer(request).status();
  CHECK(full.code() == Code::kResourceExhausted);
  CHECK(full.reason() == reasons::kQuota);
  CHECK(full.remedy().find("[limits] arrivals_per_buffer") != std::string::npos);
  for (int i = 0; i < 8; ++i) NextMessage(watch);
  REQUIRE(Must(watch.Poll()).arrivals.empty());  // asks: what was taken is dealt with
  // The acknowledgement is on its way.
  Status again = writer.RunTransfer(request).status();
  while (again.reason() == reasons::kQuota) again = writer.RunTransfer(request).status();
  Must(again);
  CHECK(NextMessage(watch).message == "m");
}

TEST_CASE("a watch ends with its buffer, and with its daemon") {
  Pair pair;
  pair.west.Do({"buffer", "create", "a", "--size", "4096"});
  pair.west.Do({"buffer", "create", "b", "--size", "4096"});
  Client client = pair.west.Connect();
  ArrivalWatch a = WatchOf(client, "a");
  ArrivalWatch b = WatchOf(client, "b");
  pair.west.Do({"buffer", "rm", "a"});
  CHECK(a.Wait({}, kLong).status().reason() == reasons::kBufferNotFound);
  pair.west.Kill();
  const Status gone = b.Wait({}, kLong).status();
  CHECK(gone.code() == Code::kUnavailable);
}

TEST_CASE("the command line watches, tells, and copies with a message") {
  Pair pair;
  pair.west.Do({"buffer", "create", "k", "--size", "4096", "--keep-arrivals"});
  pair.east.Do({"buffer", "create", "a", "--size", "100"});
  const std::string id =
      pair.east.Do({"cp", "a", "west:k@8", "--message", "request 17 is there"}).at("id");
  pair.east.Do({"cp", "-", "west:k", "--message", "from a pipe"}, "some bytes");
  CHECK(pair.east.Do({"buffer", "tell", "west:k", "alone\n"}).at("bytes") == 6);
  const CommandResult watched = pair.west.Run({"buffer", "watch", "k", "--count", "4"});
  REQUIRE(watched.exit_status == 0);
  const std::vector<Json> lines = Lines(watched.out);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].at("transfer") == id);
  CHECK(lines[0].at("message") == "request 17 is there");
  CHECK(lines[0].at("offset_bytes") == 8);
  CHECK(lines[0].at("payload_bytes") == 100);
  CHECK(lines[1].at("message") == "");
  CHECK(lines[1].at("payload_bytes") == 10);
  CHECK(lines[2].at("message") == "from a pipe");
  CHECK(lines[2].at("transfer").is_null());
  CHECK(lines[3].at("message_hex") == "616c6f6e650a");
  CheckRefused(pair.east.Run({"cp", "a", "west:k", "--message", std::string(4097, 'x')}), 2,
               "INVALID_ARGUMENT", "BAD_SIZE");
  CheckRefused(pair.east.Run({"cp", "west:k", "-", "--message", "x"}), 2, "INVALID_ARGUMENT",
               "BAD_ARGUMENT");
  pair.west.Do({"buffer", "create", "plain", "--size", "4096"});
  CheckRefused(pair.east.Run({"cp", "a", "west:plain", "--message", "x"}), 7, "FAILED_PRECONDITION",
               "NOT_WATCHED");
  CheckRefused(pair.east.Run({"buffer", "tell", "west:plain", "x"}), 7, "FAILED_PRECONDITION",
               "NOT_WATCHED");
  CheckRefused(pair.east.Run({"buffer", "watch", "west:plain"}), 7, "UNIMPLEMENTED", "NOT_SERVED");
}

TEST_CASE("another user neither watches nor tells without a right to write") {
  REQUIRE_ROOT();
  Pair pair;
  OpenTo(pair.east);
  OpenTo(pair.west);
  CommandAs(kOwner, pair.west,
            {"buffer", "create", "k", "--size", "4096", "--memory", "host", "--keep-arrivals"});
  for (const Node* node : {&pair.east, &pair.west}) {
    CheckRefused(RunAs(kOther, *node, {"buffer", "tell", "west:k", "x"}), 3, "NOT_FOUND",
                 "BUFFER_NOT_FOUND");
  }
  CheckRefused(RunAs(kOther, pair.west, {"buffer", "watch", "k", "--count", "1"}), 3, "NOT_FOUND",
               "BUFFER_NOT_FOUND");
  CommandAs(kOwner, pair.west,
            {"grant", "add", "k@0+1", "--to", std::to_string(kOther), "--write"});
  CommandAs(kOther, pair.west, {"buffer", "tell", "k", "let in"});
  CheckRefused(RunAs(kOther, pair.west, {"buffer", "watch", "k", "--count", "1"}), 4,
               "PERMISSION_DENIED", "NOT_OWNER");
  const CommandResult watched = RunAs(kOwner, pair.west, {"buffer", "watch", "k", "--count", "1"});
  REQUIRE(watched.exit_status == 0);
  CHECK(Lines(watched.out).at(0).at("message") == "let in");
  CHECK(Lines(watched.out).at(0).at("from") == std::to_string(kOther) + "@west");
}
}  // namespace arrivals_test
