// Calls whose own daemon stops: they end by their deadlines, and go on once it does.
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "onecopy/file_copy.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "transport/os/memory/mapping.h"

namespace stopped_daemon_test {
namespace {

using onecopy::ArrivalWatch;
using onecopy::Client;
using onecopy::Code;
using onecopy::ConnectOptions;
using onecopy::HostBuffer;
using onecopy::OutcomeOf;
using onecopy::Status;
using onecopy::TransferFuture;
using onecopy::TransferInfo;
using onecopy::TransferRequest;
using onecopy::TransferState;
using namespace onecopy::testing;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Of the client. What has no deadline of its own ends once the daemon has been silent for 10 s.
constexpr milliseconds kTimeout = seconds(2);
constexpr milliseconds kSilence = seconds(10);
constexpr milliseconds kDeadline = seconds(1);  // of transfers that have one
constexpr milliseconds kTeardown = seconds(5);
// Two busy cores, and sanitizers. What has a limit ends before the daemon has been silent for long.
constexpr milliseconds kRoom = seconds(7);
constexpr milliseconds kRoomAfterSilence = seconds(15);

Client Impatient(const Node& node) {
  ConnectOptions options;
  options.run_dir = node.run_dir();
  options.timeout = kTimeout;
  return Must(Client::Connect(options));
}

struct Measured {
  std::string what;
  milliseconds limit;
  std::future<std::pair<Status, milliseconds>> ended;
};

// Calls that are under way together, each with its limit. What does not end in time does so once
// the daemon goes on, which the destructor waits for.
class Calls {
 public:
  void Begin(const std::string& what, milliseconds limit, std::function<Status()> call) {
    all_.push_back({what, limit, std::async(std::launch::async, [call = std::move(call)] {
                      const auto begun = Clock::now();
                      Status status = call();
                      return std::pair(std::move(status), std::chrono::duration_cast<milliseconds>(
                                                              Clock::now() - begun));
                    })});
  }

  // Every one fails within its limit, with UNAVAILABLE or DEADLINE_EXCEEDED; of those with a
  // deadline, with the latter.
  void CheckAllFail() {
    for (Measured& each : all_) {
      INFO(each.what);
      const milliseconds end = each.limit + (each.limit < kSilence ? kRoom : kRoomAfterSilence);
      if (each.ended.wait_until(begun_ + end) != std::future_status::ready) {
        FAIL_CHECK("still under way");
        continue;
      }
      const auto [status, took] = each.ended.get();
      INFO(status.ToString() << " after " << took.count() << " ms");
      CHECK(took < end);
      CHECK((status.code() == Code::kDeadlineExceeded || status.code() == Code::kUnavailable));
      if (each.limit == kDeadline) CHECK(status.code() == Code::kDeadlineExceeded);
      CHECK_FALSE(status.remedy().empty());
    }
  }

 private:
  const Clock::time_point begun_ = Clock::now();
  std::vector<Measured> all_;
};

// How long it takes.
template <typename Call>
milliseconds Timed(const Call& call) {
  const auto begun = Clock::now();
  call();
  return std::chrono::duration_cast<milliseconds>(Clock::now() - begun);
}

Status Outcome(const onecopy::Result<TransferInfo>& ended) {
  return ended.ok() ? OutcomeOf(*ended) : ended.status();
}

}  // namespace

TEST_CASE("every call ends by its deadline while its daemon is stopped, and works again after") {
  Node east("east");
  Client client = Impatient(east);
  const HostBuffer one = Filled(client, "one", 4096, 3);
  const HostBuffer other = Must(client.CreateHostBuffer("other", 4096));
  const TransferRequest request{.source = one.endpoint(), .destination = other.endpoint()};
  for (int i = 0; i < 4; ++i) Must(client.RunTransfer(request));  // by the ring in the end
  TransferRequest limited = request;
  limited.deadline = kDeadline;
  const onecopy::os::UniqueFd fd = Must(onecopy::os::SealedMemfd("mine", 4096));
  std::vector<char> heap(4096);
  const std::string file = east.folder() / "file";
  WriteFile(file, std::string(4096, 'x'));
  ArrivalWatch watch = Must(client.WatchArrivals("other"));
  Must(watch.Poll(1));

  Calls calls;
  Frozen frozen(east);
  const auto quick = [&](const std::string& what, std::function<Status()> call) {
    calls.Begin(what, kTimeout, std::move(call));
  };
  const auto working = [&](const std::string& what, std::function<Status()> call) {
    calls.Begin(what, kSilence, std::move(call));
  };
  const auto timed = [&](const std::string& what, std::function<Status()> call) {
    calls.Begin(what, kDeadline, std::move(call));
  };
  quick("Ping", [&] { return client.Ping(); });
  quick("GetNode", [&] { return client.GetNode("").status(); });
  quick("ListNodes", [&] { return client.ListNodes().status(); });
  quick("ReleaseDevice", [&] { return client.ReleaseDevice("cuda:0"); });
  quick("SetLogLevel", [&] { return client.SetLogLevel("info").status(); });
  quick("GetBuffer", [&] { return client.GetBuffer("", "one").status(); });
  quick("ListBuffers", [&] { return client.ListBuffers("").status(); });
  quick("DeleteBuffer", [&] { return client.DeleteBuffer("nothing"); });
  quick("CreateViews", [&] { return client.CreateView({"view", {"", "one"}}).status(); });
  quick("CreateGrant", [&] { return client.CreateGrant({{"", "one"}, "7", true}).status(); });
  quick("ListGrants", [&] { return client.ListGrants("").status(); });
  quick("DeleteGrant", [&] { return client.DeleteGrant(onecopy::GrantId("7")); });
  quick("ListTransfers", [&] { return client.ListTransfers().status(); });
  quick("GetTransfer", [&] { return client.GetTransfer(onecopy::TransferId("7")).status(); });
  quick("CancelTransfer", [&] { return client.CancelTransfer(onecopy::TransferId("7")).status(); });
  quick("SendMessage", [&] { return client.SendMessage({{"", "one"}, "text"}); });
  quick("WatchArrivals", [&] { return client.WatchArrivals("one").status(); });
  quick("Connect",
        [&] { return Client::Connect({.run_dir = east.run_dir(), .timeout = kTimeout}).status(); });
  quick("MapBuffer", [&] { return client.MapBuffer("one").status(); });
  quick("RegisterMemfd", [&] { return client.RegisterMemfd("mine", fd.get(), 0, 4096).status(); });
  working("CreateBuffer",
          [&] { return client.CreateBuffer({.name = "new", .bytes = 1}).status(); });
  working("RegisterMemory",
          [&] { return client.RegisterMemory("heap", heap.data(), heap.size()).status(); });
  working("SumBuffer", [&] { return client.SumBuffer({"", "one"}).status(); });
  working("ProbeNode", [&] { return client.ProbeNode("").status(); });
  working("PlanTransfer", [&] { return client.PlanTransfer(request).status(); });
  working("WatchTransfer",
          [&] { return client.WatchTransfer(onecopy::TransferId("7"), {}).status(); });
  working("a transfer by the ring", [&] { return Outcome(client.RunTransfer(request)); });
  working("a started one by the ring", [&] {
    const auto started = client.StartTransfer(request);
    return started.ok() ? Outcome(client.AwaitTransfer(started->id)) : started.status();
  });
  working("a future by the ring", [&] {
    const auto future = client.RunTransferAsync(request);
    return future.ok() ? Outcome(future->Get()) : future.status();
  });
  working("a future with a callback", [&] {
    const auto future = client.RunTransferAsync(request, {.on_end = [](const auto&) {}});
    return future.ok() ? Outcome(future->Get()) : future.status();
  });
  timed("a transfer", [&] { return Outcome(client.RunTransfer(limited)); });
  timed("a transfer that tells its progress",
        [&] { return Outcome(client.RunTransfer(limited, [](const TransferInfo&) {})); });
  timed("a started one", [&] {
    const auto started = client.StartTransfer(limited);
    return started.ok() ? Outcome(client.AwaitTransfer(started->id)) : started.status();
  });
  timed("a future", [&] {
    const auto future = client.RunTransferAsync(limited);
    return future.ok() ? Outcome(future->Get()) : future.status();
  });
  timed("a file", [&] {
    return CopyFileToBuffer(client, {file}, other.endpoint(), {.deadline = kDeadline}).status();
  });
  timed("a buffer to a file", [&] {
    return CopyBufferToFile(client, one.endpoint(), {file}, {.deadline = kDeadline}).status();
  });
  calls.CheckAllFail();
  frozen.Thaw();

  // All that it was asked meanwhile comes first, and may take longer than this client waits.
  WaitUntil("the daemon answers again", [&] { return client.Ping().ok(); });
  CHECK(client.session().number == 1);
  for (int i = 0; i < 4; ++i) CHECK(OutcomeOf(Must(client.RunTransfer(request))).ok());
  CHECK(IsPayload(other.data(), 4096, 3));
  Must(client.RegisterMemfd("again", fd.get(), 0, 4096));
  Must(client.RegisterMemory("heap-again", heap.data(), heap.size()));
}

TEST_CASE("what a client has made ends within seconds while its daemon is stopped") {
  Node east("east");
  std::optional<Client> client(east.Connect());  // which would wait for answers for 30 s
  const HostBuffer kept = Must(client->CreateHostBuffer("kept", 4096));
  std::optional<HostBuffer> buffer(Must(client->CreateHostBuffer("buffer", 4096)));
  std::vector<HostBuffer> many;
  for (int i = 0; i < 20; ++i) many.push_back(Must(client->CreateHostBuffer("", 4096)));
  std::shared_ptr<onecopy::Pool> pool = Must(client->CreatePool({.slab_bytes = 4096}));
  Must(pool->Grow(4096));
  std::vector<char> heap(4096);
  Must(client->RegisterMemory("heap", heap.data(), heap.size()));
  std::optional<ArrivalWatch> watch(Must(client->WatchArrivals("kept")));
  auto mapped = std::make_optional(Must(client->MapBuffer("kept")));
  const TransferRequest request{.source = {"", "buffer"}, .destination = {"", "kept"}};
  for (int i = 0; i < 4; ++i) Must(client->RunTransfer(request));

  std::vector<TransferFuture> futures;
  Frozen frozen(east);
  futures.push_back(Must(client->RunTransferAsync(request)));
  futures.push_back(Must(client->RunTransferAsync(request, {.on_end = [](const auto&) {}})));
  TransferRequest slower = request;
  slower.checksum = true;
  futures.push_back(Must(client->RunTransferAsync(slower)));
  const auto ends = [](const std::string& what, const std::function<void()>& end) {
    INFO(what);
    CHECK(Timed(end) < kTeardown + kRoom);
  };
  ends("of memory that this process copies",
       [&] { CheckFailed(client->ReleaseBuffer("heap"), Code::kDeadlineExceeded, "DEADLINE"); });
  ends("of a buffer", [&] { buffer.reset(); });
  ends("of many", [&] { many.clear(); });
  ends("of a pool", [&] { pool.reset(); });
  ends("of a watch", [&] { watch.reset(); });
  ends("of a mapping", [&] { mapped.reset(); });
  ends("of the client", [&] { client.reset(); });
  for (const TransferFuture& each : futures) {
    CHECK(each.WaitFor(kTeardown + kRoom));
    CHECK(each.Get().status().code() == Code::kCancelled);
  }
  frozen.Thaw();
  CheckServes(east);
}

TEST_CASE("a daemon that was stopped ends what its client released meanwhile") {
  Node east("east");
  Client client = east.Connect();
  std::optional<HostBuffer> buffer(Must(client.CreateHostBuffer("buffer", 4096)));
  Frozen frozen(east);
  buffer.reset();
  frozen.Thaw();
  Must(client.Ping());
  CHECK(Must(client.ListBuffers()).empty());
}

}  // namespace stopped_daemon_test
