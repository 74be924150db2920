// Short transfers by a ring between nodes, of GPU memory that no link reads or writes.
#include <deque>
#include <future>
#include <random>
#include <thread>

#include "daemon/engine/rings/bounce.h"
#include "daemon/pipeline/push_message.h"
#include "onecopy/reasons.h"
#include "tests/unit/engine/ring_of.h"
#include "tests/unit/engine/wild_reader.h"
#include "tests/unit/sharing/gpu_rig.h"
#include "transport/ring/layout.h"

namespace staged_ring_test {
namespace {

using namespace onecopy;
using namespace onecopy::testing;
using engine::kBounceBytes;

constexpr const char* kSource = "east:from@0+1";  // as long as the first transfer

// GPUs that do not reach each other's memory, so that their bytes go through sockets.
void SetApart(FakeGpus::Hooks& hooks) { hooks.apart = true; }

// "a" on east and "b" on west, in these memories, and a ring at one of the nodes.
struct Staged {
  const bool by_reader;
  const std::string from;
  const std::string to;
  GpuRig rig;
  EngineNode& here;
  const Principal& who;
  RingOf ring;

  explicit Staged(bool by_reader, std::string from = "cuda:0", std::string to = "cuda:1",
                  const std::function<void(const std::string&, NodePlan&)>& change = {})
      : by_reader(by_reader),
        from(std::move(from)),
        to(std::move(to)),
        rig([this, change](const std::string& name, NodePlan& plan) {
          rig.controls[name]->Set(SetApart);
          if (change) change(name, plan);
        }),
        here(rig.cluster[by_reader ? "west" : "east"]),
        who(by_reader ? rig.bob : rig.alice),
        ring(here, who) {
    rig.Create("east", rig.alice, "from", this->from);
    rig.Create("west", rig.bob, "to", this->to);
    rig.Put("east", rig.alice, "from", 1);
    rig.cluster.WaitForPeer("west", "east", NodeState::kConnected);
    rig.cluster.WaitForPeer("east", "west", NodeState::kConnected);
  }
  std::string path() const { return from == "host" || to == "host" ? "tcp-bounce" : "tcp-staged"; }
  uint64_t Open() {
    const auto route = ring.OpenRoute(kSource, "west:to");
    REQUIRE_OK(route);
    CHECK(route->plan.path == path());
    CHECK(route->max_bytes == ring::kMaxBytes);
    CHECK_FALSE(route->sums);
    return route->word;
  }
  ring::Ended Await() {
    ring::Ended ended;
    while (!ring.end().Reap(&ended)) ring.end().Sleep(std::chrono::seconds(1));
    return ended;
  }
  Result<TransferInfo> Get(uint64_t number) {
    return here.Ask<TransferInfo>([&](ClientApi& api, auto reply) {
      api.GetTransfer(who, ring.IdOf(number), std::move(reply));
    });
  }
  bool Holds(uint64_t seed) { return rig.Holds("west", rig.bob, "to", seed); }
  // Copies of that node by the ring's thread wait from now on.
  void Hold(const std::string& node) {
    rig.controls[node]->Set([](FakeGpus::Hooks& hooks) { hooks.hold = true; });
  }
};

void MoveAll(RingOf& ring, uint64_t word, uint64_t each) {
  for (uint64_t at = 0; at < kGpuBytes; at += each) {
    REQUIRE(ring.Move(word, at, at, std::min(each, kGpuBytes - at)).code == Code::kOk);
  }
}

}  // namespace

TEST_CASE("a ring moves GPU memory between nodes through staging memory, with one negotiation") {
  const auto [from, to] = GENERATE(table<std::string, std::string>(
      {{"cuda:0", "cuda:1"}, {"cuda:0", "host"}, {"host", "cuda:1"}}));
  const bool by_reader = GENERATE(true, false);
  CAPTURE(from, to, by_reader);
  Staged with(by_reader, from, to);
  const uint64_t word = with.Open();
  const uint64_t each = GENERATE(uint64_t{1009}, ring::kMaxBytes);
  MoveAll(with.ring, word, each);
  CHECK(with.Holds(1));
  with.rig.Put("east", with.rig.alice, "from", 2);
  MoveAll(with.ring, word, 10'000);
  CHECK(with.Holds(2));
  CHECK(with.ring.Move(word, kGpuBytes - 1, 0, 2).code == Code::kOutOfRange);
  CHECK(with.ring.Move(word, 0, kGpuBytes - 1, 2).code == Code::kOutOfRange);
  CHECK(with.rig.cluster.calls("OpenRange") == 1);
  CHECK(with.rig.cluster.calls("OpenPush") == (by_reader ? 0 : 1));

  const ring::Ended last = with.ring.Move(word, 8, 16, 100);
  REQUIRE(last.code == Code::kOk);
  const auto done = with.Get(last.number);
  REQUIRE_OK(done);
  const Receipt& receipt = done->receipt;
  CHECK(receipt.path == with.path());
  CHECK(receipt.link == "tcp");
  CHECK(done->source == ParseEnd("east:from@8+100"));
  CHECK(done->destination == ParseEnd("west:to@16+100"));
  // Three over the wire, and one for each GPU.
  const bool from_gpu = from != "host";
  const bool to_gpu = to != "host";
  REQUIRE(receipt.steps.size() == 3U + (from_gpu ? 1 : 0) + (to_gpu ? 1 : 0));
  for (const ExecutedStep& step : receipt.steps) CHECK(step.bytes == 100);
  CHECK(receipt.steps.front().step.node == "east");
  CHECK(receipt.steps.front().step.by == (from_gpu ? "copy-engine" : "cpu"));
  CHECK(receipt.steps.back().step.node == "west");
  CHECK(receipt.steps.back().step.by == (to_gpu ? "copy-engine" : "cpu"));
  CHECK(receipt.evidence.at("submitted") == "ring");
  CHECK(receipt.evidence.contains("steps") == !by_reader);
}

TEST_CASE("more than fits into staging memory is under way by a ring, and each byte is right") {
  Staged with(GENERATE(true, false));
  const uint64_t word = with.Open();
  std::mt19937 random(GENERATE(1U, 2U, 3U));
  uint64_t at = 0;
  uint64_t ended = 0;
  uint64_t submitted = 0;
  while (at < kGpuBytes || ended < submitted) {
    uint64_t number = 0;
    const uint64_t longest = random() % 4 == 0 ? ring::kMaxBytes : 700;
    const uint64_t bytes = std::min(1 + random() % longest, kGpuBytes - at);
    if (at < kGpuBytes && with.ring.end().Submit(word, at, at, bytes, &number)) {
      at += bytes;
      ++submitted;
      continue;
    }
    REQUIRE(with.Await().code == Code::kOk);
    ++ended;
  }
  CHECK(with.Holds(1));
}

TEST_CASE("a staged route ends with the right to read, or to write") {
  const bool by_reader = GENERATE(true, false);
  Staged with(by_reader);
  // Carol's buffer at the other node.
  const std::string there = by_reader ? "east" : "west";
  const Principal carol = with.rig.cluster[there].Attach(1001);
  with.rig.Create(there, carol, "hers", "cuda:0");
  if (by_reader) with.rig.Put(there, carol, "hers", 3);
  const auto open = [&] {
    return by_reader ? with.ring.OpenRoute("east:hers@1000+5000", "west:to")
                     : with.ring.OpenRoute("east:from@0+5000", "west:hers@1000+5000");
  };
  CHECK(open().status().reason() == reasons::kBufferNotFound);
  const auto grant = with.rig.cluster[there].Ask<GrantInfo>([&](ClientApi& api, auto reply) {
    api.CreateGrant(carol,
                    {.range = ParseEnd("hers@1000+5000"),
                     .to = by_reader ? "1000@west" : "1000@east",
                     .read = by_reader,
                     .write = !by_reader,
                     .lifetime = {}},
                    std::move(reply));
  });
  REQUIRE_OK(grant);
  const auto route = open();
  REQUIRE_OK(route);
  CHECK((by_reader ? route->source.offset_bytes : route->destination.offset_bytes) == 1000);
  const auto move = [&](uint64_t in_hers, uint64_t bytes) {
    return by_reader ? with.ring.Move(route->word, in_hers, 0, bytes)
                     : with.ring.Move(route->word, 0, in_hers, bytes);
  };
  CHECK(move(1000, 5000).code == Code::kOk);
  CHECK(move(999, 2).code == Code::kOutOfRange);
  CHECK(move(5999, 2).code == Code::kOutOfRange);
  const auto deleted = with.rig.cluster[there].Ask<bool>([&](ClientApi& api, auto reply) {
    api.DeleteGrant(carol, grant->id, [reply = std::move(reply)](const Status& status) mutable {
      reply(status.ok() ? Result<bool>(true) : Result<bool>(status));
    });
  });
  REQUIRE_OK(deleted);
  CHECK(move(1000, 1).code != Code::kOk);
  CHECK(open().status().reason() == reasons::kBufferNotFound);
}

TEST_CASE("a buffer that is removed waits for the copies of a staged route, whichever end it is") {
  const bool by_reader = GENERATE(true, false);
  const bool source = GENERATE(true, false);
  const std::string node = source ? "east" : "west";
  CAPTURE(by_reader, node);
  Staged with(by_reader);
  const uint64_t word = with.Open();
  with.Hold(node);
  uint64_t number = 0;
  REQUIRE(with.ring.end().Submit(word, 0, 0, 1000, &number));
  while (!with.rig.controls[node]->polled()) std::this_thread::yield();
  auto remover = std::async(std::launch::async, [&] {
    return with.rig.Remove(node, source ? with.rig.alice : with.rig.bob, source ? "from" : "to",
                           true);
  });
  while (with.ring.OpenRoute(kSource, "west:to").ok()) std::this_thread::yield();
  with.rig.controls[node]->Release();
  CHECK(remover.get().ok());
  CHECK(with.Await().number == number);
  CHECK(with.ring.Move(word, 0, 0, 1).code != Code::kOk);
}

TEST_CASE("a withdrawn transfer to another node ends only when that node writes nothing more") {
  Staged with(false);
  const uint64_t word = with.Open();
  with.Hold("west");
  uint64_t number = 0;
  REQUIRE(with.ring.end().Submit(word, 0, 0, 1000, &number));
  while (!with.rig.controls["west"]->polled()) std::this_thread::yield();
  // West has read the bytes, and not copied them yet.
  auto remover = std::async(std::launch::async,
                            [&] { return with.rig.Remove("east", with.rig.alice, "from", true); });
  while (with.rig.cluster.calls("CloseOpening") == 0) std::this_thread::yield();
  ring::Ended ended;
  CHECK_FALSE(with.ring.end().Reap(&ended));
  with.rig.controls["west"]->Release();
  CHECK(with.Await().number == number);
  CHECK(remover.get().ok());
}

TEST_CASE("a staged route ends with the other daemon, and is made anew") {
  const bool by_reader = GENERATE(true, false);
  Staged with(by_reader);
  const std::string there = by_reader ? "east" : "west";
  const uint64_t word = with.Open();
  with.Hold(there);
  uint64_t number = 0;
  REQUIRE(with.ring.end().Submit(word, 0, 0, 1000, &number));
  while (!with.rig.controls[there]->polled()) std::this_thread::yield();
  with.rig.controls[there]->Release();
  with.rig.cluster.Restart(there);
  CHECK(with.Await().number == number);
  with.rig.cluster.WaitForPeer("east", "west", NodeState::kConnected);
  with.rig.cluster.WaitForPeer("west", "east", NodeState::kConnected);
  CHECK(with.ring.Move(word, 0, 0, 1).code != Code::kOk);
  if (by_reader) {
    with.rig.alice = with.rig.cluster["east"].Attach();
    with.rig.Create("east", with.rig.alice, "from", "cuda:0");
    with.rig.Put("east", with.rig.alice, "from", 2);
  } else {
    with.rig.bob = with.rig.cluster["west"].Attach();
    with.rig.Create("west", with.rig.bob, "to", "cuda:1");
    with.rig.Put("east", with.rig.alice, "from", 2);
  }
  MoveAll(with.ring, with.Open(), ring::kMaxBytes);
  CHECK(with.Holds(2));
}

TEST_CASE("the staging memory of routes is charged to its payers, and refused without room") {
  const bool by_reader = GENERATE(true, false);
  const bool full = GENERATE(true, false);
  const std::string node = GENERATE("east", "west");
  CAPTURE(by_reader, full, node);
  Staged with(by_reader, "cuda:0", "cuda:1", [&](const std::string& name, NodePlan& plan) {
    if (name == node && full) plan.options.limits.memory.each = kBounceBytes / 2 + (512 << 10);
  });
  const auto charged = [&] {
    return with.rig.cluster[node]
        .Ask<uint64_t>([&](ClientApi&, auto reply) {
          reply(with.rig.cluster[node].engine().ledger().bytes(engine::Charged::kBounces));
        })
        .value();
  };
  CHECK(charged() == 0);
  std::deque<uint64_t> words;
  for (int i = 0; i < 16; ++i) {
    const auto route = with.ring.OpenRoute(kSource, "west:to");
    if (!route.ok()) {
      CHECK(route.status().reason() == reasons::kQuota);
      CHECK(full);
      break;
    }
    words.push_back(route->word);
  }
  CHECK((words.size() < 16) == full);
  CHECK(charged() == words.size() * kBounceBytes);
  for (const uint64_t word : words) CHECK(with.ring.Move(word, 0, 0, 10).code == Code::kOk);
}

TEST_CASE("a source that says nonsense of its staging memory gets no route") {
  const bool by_reader = GENERATE(true, false);
  Staged with(by_reader);
  const uint64_t said = GENERATE(uint64_t{0}, ring::kMaxBytes - 1, UINT64_MAX);
  with.rig.cluster.ChangeReplies<OpenRangeReply>([said](OpenRangeReply& reply) {
    reply.fill_bytes = said;
    for (Step& step : reply.fill_steps) step.node = "west";
  });
  const auto route = with.ring.OpenRoute(kSource, "west:to");
  if (said < ring::kMaxBytes) {
    CHECK(route.status().code() == Code::kInvalidArgument);
    return;
  }
  // Of more than it needs, this node uses what it needs. Steps are those of the node that says so.
  REQUIRE_OK(route);
  MoveAll(with.ring, route->word, ring::kMaxBytes);
  CHECK(with.Holds(1));
  const ring::Ended last = with.ring.Move(route->word, 0, 0, 1);
  if (!by_reader) return;  // that node's plan is told
  const auto done = with.Get(last.number);
  REQUIRE_OK(done);
  CHECK(done->receipt.steps.front().step.node == "east");
}

TEST_CASE("a source that does not say how it stages gets no route") {
  Staged with(GENERATE(true, false));
  const size_t steps = GENERATE(0, 2);
  with.rig.cluster.ChangeReplies<OpenRangeReply>(
      [steps](OpenRangeReply& reply) { reply.fill_steps.resize(steps); });
  CHECK(with.ring.OpenRoute(kSource, "west:to").status().code() == Code::kInvalidArgument);
}

TEST_CASE("a node that does not say that it has closed a route is asked again") {
  Staged with(false);
  const uint64_t word = with.Open();
  with.Hold("west");
  uint64_t number = 0;
  REQUIRE(with.ring.end().Submit(word, 0, 0, 1000, &number));
  while (!with.rig.controls["west"]->polled()) std::this_thread::yield();
  with.rig.cluster.FailCalls("CloseOpening",
                             {Code::kResourceExhausted, reasons::kQuota, "too many calls"});
  auto remover = std::async(std::launch::async,
                            [&] { return with.rig.Remove("east", with.rig.alice, "from", true); });
  while (with.rig.cluster.failed_calls("CloseOpening") < 3) std::this_thread::yield();
  ring::Ended ended;
  CHECK_FALSE(with.ring.end().Reap(&ended));
  with.rig.cluster.AllowCalls("CloseOpening");
  with.rig.controls["west"]->Release();
  CHECK(with.Await().number == number);
  CHECK(remover.get().ok());
}

// A reader that speaks to east by itself.
struct Wild {
  static constexpr uint64_t kFills = 815;
  Staged with{true};
  WildReader reader{with.rig.cluster, "east", "west"};
  Result<OpenRangeReply> opened = reader.OpenRange("east:from@1000+5000", 1000, kFills);
  Mutex mutex;
  Condition news;
  std::deque<pipeline::Pushed> heard;

  Wild() {
    REQUIRE_OK(opened);
    reader.connection().Listen(kFills, [this](std::span<const std::byte> bytes) {
      const auto pushed = pipeline::DecodePushed(bytes);
      const MutexLock lock(mutex);
      if (pushed) heard.push_back(*pushed);
      news.NotifyAll();
    });
  }
  ~Wild() { reader.connection().Ignore(kFills); }
  void Say(const std::string& text) {
    REQUIRE_OK(reader.connection().Send(kFills, std::as_bytes(std::span(text))));
  }
  pipeline::Pushed Await() {
    const MutexLock lock(mutex);
    while (heard.empty()) news.Wait(mutex);
    const pipeline::Pushed first = heard.front();
    heard.pop_front();
    return first;
  }
  Status Ask(const pipeline::Push& push) {
    Say(pipeline::Encode(std::vector{push}, false));
    const pipeline::Pushed answer = Await();
    CHECK(answer.number == push.number);
    return answer.status;
  }
};

TEST_CASE("a reader has only what was opened to it copied, and only into its staging memory") {
  Wild wild;
  CHECK(wild.opened->fill_bytes == kBounceBytes);
  REQUIRE(wild.opened->fill_steps.size() == 1);
  CHECK(wild.opened->fill_steps[0].node == "east");
  uint64_t number = 0;
  for (const pipeline::Push& wrong : std::vector<pipeline::Push>{
           {0, 999, 0, 2},
           {0, 5999, 0, 2},
           {0, 1000, kBounceBytes - 1, 2},
           {0, 1000, 0, 0},
           {0, 1000, 0, ring::kMaxBytes + 1},
           {0, UINT64_MAX, 0, 2},
           {0, 1000, UINT64_MAX, 2},
       }) {
    pipeline::Push push = wrong;
    push.number = number++;
    CHECK(wild.Ask(push).reason() == reasons::kRangeOutOfBuffer);
  }
  REQUIRE_OK(wild.Ask({number++, 1000, 64, 100}));
  const RegionRef into = HostRegion(kBounceBytes);
  const std::byte* const bytes = into->address();
  REQUIRE_OK(wild.reader.Get(wild.opened->key, 0, {into, 0, kBounceBytes}));
  for (uint64_t i = 0; i < kBounceBytes; ++i) {
    const bool copied = i >= 64 && i < 164;
    REQUIRE(bytes[i] == (copied ? PatternAt(1000 + i - 64, 1) : std::byte{0}));
  }
  CHECK_FALSE(wild.reader.Get(wild.opened->key, kBounceBytes - 1, {into, 0, 2}).ok());
}

TEST_CASE("a reader that talks nonsense gets no more staged copies") {
  Wild wild;
  wild.Say("nonsense");
  CHECK(wild.Await().number == pipeline::Pushed::kRest);
  wild.Say(pipeline::Encode(std::vector<pipeline::Push>{{0, 1000, 0, 8}}, false));
  // Others go on.
  MoveAll(wild.with.ring, wild.with.Open(), ring::kMaxBytes);
  CHECK(wild.with.Holds(1));
  const MutexLock lock(wild.mutex);
  CHECK(wild.heard.empty());
}

TEST_CASE("a reader that floods its source with requests for copies is refused above a limit") {
  Wild wild;
  wild.with.Hold("east");
  constexpr uint64_t kMany = 2 * SmallCopyRoute::kMaxUnderWay;
  for (uint64_t i = 0; i < kMany; ++i) {
    wild.Say(pipeline::Encode(std::vector<pipeline::Push>{{i, 1000, 0, 8}}, false));
  }
  for (uint64_t i = SmallCopyRoute::kMaxUnderWay; i < kMany; ++i) {
    CHECK(wild.Await().status.reason() == reasons::kQuota);
  }
  wild.with.rig.controls["east"]->Release();
  for (uint64_t i = 0; i < SmallCopyRoute::kMaxUnderWay; ++i) CHECK(wild.Await().status.ok());
}

}  // namespace staged_ring_test
