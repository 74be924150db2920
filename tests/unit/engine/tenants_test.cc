// What one user of a node does costs the others nothing: neither their time, nor what the node
// remembers for them.
#include <chrono>

#include "onecopy/reasons.h"
#include "tests/unit/engine/ring_of.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

constexpr uint32_t kAliceUid = 1000;
constexpr uint32_t kMalloryUid = 1001;

TransferRequest Small(const std::string& buffer, const std::string& request_id = {}) {
  TransferRequest request = Request("east:" + buffer + "@0+8", "east:" + buffer + "@8+8");
  request.request_id = request_id;
  return request;
}

Result<GrantInfo> Grant(EngineNode& node, const Principal& who, const std::string& range,
                        const std::string& to) {
  return node.Ask<GrantInfo>([&](ClientApi& api, auto reply) {
    api.CreateGrant(
        who, {.range = ParseEnd(range), .to = to, .read = true, .write = false, .lifetime = {}},
        std::move(reply));
  });
}

Result<Page<BufferInfo>> Buffers(EngineNode& node, const Principal& who) {
  return node.Ask<Page<BufferInfo>>([&](ClientApi& api, auto reply) {
    api.ListBuffers(who, "", {1000, {}}, std::move(reply));
  });
}

// How long alice's list takes beside `buffers` of mallory's that share `grants` grants, to others.
// The best of a few: what else runs on the machine only ever adds.
std::chrono::nanoseconds ListBeside(size_t buffers, size_t grants) {
  EngineCluster cluster({"east"});
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach(kAliceUid);
  const Principal mallory = east.Attach(kMalloryUid);
  REQUIRE_OK(east.CreateBuffer(alice, "mine", 16));
  for (size_t i = 0; i < buffers; ++i) {
    REQUIRE_OK(east.CreateBuffer(mallory, "m" + std::to_string(i), 16));
  }
  for (size_t i = 0; i < grants; ++i) {
    REQUIRE_OK(Grant(east, mallory, "m" + std::to_string(i % buffers) + "@0+1",
                     std::to_string(100'000 + i)));
  }
  std::chrono::nanoseconds best = std::chrono::nanoseconds::max();
  for (int i = 0; i < 7; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto page = Buffers(east, alice);
    best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - begin);
    REQUIRE_OK(page);
    REQUIRE(page->items.size() == 1);
    REQUIRE(page->items[0].name == "mine");
  }
  return best;
}

}  // namespace

TEST_CASE("another user's thousand buffers and 8,000 grants do not lengthen one's list of one") {
  const auto beside_few = ListBeside(32, 256);
  const auto beside_many = ListBeside(1024, 8192);
  INFO("beside few " << beside_few.count() << " ns, beside many " << beside_many.count() << " ns");
  // Looking at each would take 32 times as long, and at each grant for each buffer 1,024 times.
  CHECK(beside_many < 16 * beside_few);
}

TEST_CASE("what a request made is known for longer than 4,096 others, of its user or of anybody") {
  EngineCluster cluster({"east"});
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach(kAliceUid);
  const Principal other = east.Attach(GENERATE(kAliceUid, kMalloryUid));
  REQUIRE_OK(east.CreateBuffer(alice, "a", 16));
  REQUIRE_OK(east.CreateBuffer(other, "b", 16));
  const auto first = east.Copy(alice, Small("a", "job"));
  REQUIRE_OK(first);
  for (int i = 0; i < 5000; ++i) {
    REQUIRE_OK(east.Start(other, Small("b", "other-" + std::to_string(i))));
  }
  const auto again = east.Start(alice, Small("a", "job"));
  if (other.uid == kAliceUid) {
    // 1,000 ended ones stay known: that it was done is known, and what came of it is not.
    CHECK(again.status().code() == Code::kAlreadyExists);
    CHECK(again.status().reason() == "REQUEST_FORGOTTEN");
  } else {
    REQUIRE_OK(again);
    CHECK(again->id == first->id);
    CHECK(GetTransfer(east, alice, first->id).ok());
  }
}

TEST_CASE("no more requests are taken than can be remembered, rather than one forgotten early") {
  EngineCluster cluster({"east"}, [](const std::string&, NodePlan& plan) {
    plan.options.limits.request_ids = {3, 6};
    plan.options.limits.reserved_percent = 0;
  });
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach(kAliceUid);
  REQUIRE_OK(east.CreateBuffer(alice, "a", 16));
  CHECK(east.Start(alice, Small("nobody", "failed")).status().code() == Code::kNotFound);
  const auto first = east.Start(alice, Small("a", "1"));
  REQUIRE_OK(first);
  REQUIRE_OK(east.Start(alice, Small("a", "2")));
  REQUIRE_OK(east.Start(alice, Small("a", "3")));
  const Status full = east.Start(alice, Small("a", "4")).status();
  CHECK(full.code() == Code::kResourceExhausted);
  CHECK(full.reason() == reasons::kQuota);
  CHECK(full.remedy().find("[limits] request_ids_per_user, which is 3") != std::string::npos);
  CHECK(east.Start(alice, Small("a", "1"))->id == first->id);
  REQUIRE_OK(east.Start(alice, Small("a")));  // which nobody wants remembered
  const Principal mallory = east.Attach(kMalloryUid);
  REQUIRE_OK(east.CreateBuffer(mallory, "m", 16));
  REQUIRE_OK(east.Start(mallory, Small("m", "1")));  // an id of her own
}

TEST_CASE("requests are forgotten once their time is over, and make room") {
  EngineCluster cluster({"east"}, [](const std::string&, NodePlan& plan) {
    plan.options.limits.request_ids = {1, 6};
    plan.options.limits.request_memory = std::chrono::milliseconds(8);
  });
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach(kAliceUid);
  REQUIRE_OK(east.CreateBuffer(alice, "a", 16));
  for (int i = 0; i < 3; ++i) {
    Status started;
    do {
      started = east.Start(alice, Small("a", std::to_string(i))).status();
    } while (started.reason() == reasons::kQuota);
    REQUIRE_OK(started);
  }
}

TEST_CASE("a buffer that a request made is not made again") {
  EngineCluster cluster({"east"});
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach(kAliceUid);
  const auto create = [&](const std::string& name, const std::string& request_id) {
    return east.Ask<BufferInfo>([&](ClientApi& api, auto reply) {
      CreateBufferRequest request;
      request.request_id = request_id;
      request.name = name;
      request.bytes = 16;
      request.memory = "host";
      api.CreateBuffer(alice, request, std::move(reply));
    });
  };
  const auto made = create("a", "job");
  REQUIRE_OK(made);
  CHECK(create("a", "job")->id == made->id);
  CHECK(create("b", "job").status().reason() == reasons::kRequestIdReused);
  REQUIRE_OK(east.Copy(alice, Small("a", "job")));  // another kind of request
  const auto removed = east.Ask<bool>([&](ClientApi& api, auto reply) {
    api.DeleteBuffer(alice, "", "a", false,
                     [reply = std::move(reply)](const Status& status) mutable {
                       if (status.ok()) return reply(true);
                       reply(status);
                     });
  });
  REQUIRE_OK(removed);
  const Status again = create("a", "job").status();
  CHECK(again.code() == Code::kAlreadyExists);
  CHECK(again.reason() == "REQUEST_FORGOTTEN");
}

TEST_CASE("transfers under way, rings and their routes are limited for each user") {
  EngineCluster cluster({"east"}, [](const std::string&, NodePlan& plan) {
    plan.options.limits.transfers = {1, 20};
    plan.options.limits.rings = {1, 20};
    plan.options.limits.routes = {2, 20};
  });
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach(kAliceUid);
  const uint64_t bytes = uint64_t{64} << 20;
  REQUIRE_OK(east.CreateBuffer(alice, "a", bytes));
  REQUIRE_OK(east.CreateBuffer(alice, "b", bytes));
  std::vector<Result<TransferInfo>> started;
  std::promise<void> asked;
  // In one go, so that none has ended before the next is asked for.
  east.engine().loop().Post([&] {
    for (int i = 0; i < 3; ++i) {
      east.engine().client().CreateTransfer(
          alice, Request("a", "b"), {},
          [&](Result<TransferInfo> info) { started.push_back(std::move(info)); });
    }
    asked.set_value();
  });
  asked.get_future().wait();
  REQUIRE(started.size() == 3);
  REQUIRE_OK(started[0]);
  CHECK(started[1].status().reason() == reasons::kQuota);
  CHECK(started[2].status().remedy().find("[limits] transfers_per_user") != std::string::npos);
  CHECK(east.Wait(alice, started[0]->id).state == TransferState::kSucceeded);
  REQUIRE_OK(east.Copy(alice, Request("a", "b")));

  RingOf ring(east, alice);
  const Principal again = east.Attach(kAliceUid);
  const auto second = ring.Ask<RingGiven>(
      [&](RingApi& rings, auto reply) { rings.OpenRing(again.session, std::move(reply)); });
  CHECK(second.status().reason() == reasons::kQuota);
  REQUIRE_OK(ring.OpenRoute("a@0+64", "b"));
  REQUIRE_OK(ring.OpenRoute("b@0+64", "a"));
  const Status full = ring.OpenRoute("a@0+64", "a").status();
  CHECK(full.reason() == reasons::kQuota);
  CHECK(full.remedy().find("[limits] routes_per_user") != std::string::npos);
}

TEST_CASE("what is queued for a client that has gone is not done any more") {
  EngineCluster cluster({"east"});
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach(kAliceUid);
  const Principal leaving = east.Attach(kAliceUid);
  const uint64_t bytes = uint64_t{256} << 20;
  REQUIRE_OK(east.CreateBuffer(alice, "a", bytes));
  std::vector<Result<BufferSum>> sums;
  std::promise<void> answered;
  constexpr size_t kSums = 64;
  east.engine().loop().Post([&] {
    for (size_t i = 0; i < kSums; ++i) {
      Endpoint all;
      all.buffer = "a";
      east.engine().client().SumBuffer(leaving, {all}, [&](Result<BufferSum> sum) {
        sums.push_back(std::move(sum));
        if (sums.size() == kSums) answered.set_value();
      });
    }
    east.engine().sessions().Close(leaving.session);
  });
  answered.get_future().wait();
  for (const auto& sum : sums) CHECK(sum.status().code() == Code::kCancelled);
  // Somebody else's reading is done.
  REQUIRE_OK(east.Ask<BufferSum>([&](ClientApi& api, auto reply) {
    Endpoint some;
    some.buffer = "a";
    some.bytes = 4096;
    api.SumBuffer(alice, {some}, std::move(reply));
  }));
}

TEST_CASE(
    "room for a peer's buffers: one that is asked for again has it, and a check asks for it") {
  EngineCluster cluster({"east", "west"}, [](const std::string& name, NodePlan& plan) {
    if (name != "east") return;
    for (PeerOptions& peer : plan.options.peers) peer.create_bytes = 8192;
  });
  EngineNode& west = cluster["west"];
  cluster.WaitForPeer("west", "east", NodeState::kConnected);
  cluster.WaitForPeer("east", "west", NodeState::kConnected);
  const Principal alice = west.Attach();
  const auto create = [&](const std::string& name, uint64_t bytes, const std::string& id,
                          bool validate_only) {
    return west.Ask<BufferInfo>([&](ClientApi& api, auto reply) {
      CreateBufferRequest request;
      request.node = "east";
      request.name = name;
      request.bytes = bytes;
      request.memory = "host";
      request.request_id = id;
      request.validate_only = validate_only;
      api.CreateBuffer(alice, request, std::move(reply));
    });
  };
  CHECK(create("large", 8193, "", true).status().reason() == reasons::kQuota);
  REQUIRE_OK(create("whole", 8192, "", true));
  const auto first = create("whole", 8192, "id", false);
  REQUIRE_OK(first);
  const auto again = create("whole", 8192, "id", false);
  REQUIRE_OK(again);
  CHECK(again->id == first->id);
  CHECK(create("more", 1, "", true).status().reason() == reasons::kQuota);
  CHECK(create("more", 1, "", false).status().reason() == reasons::kQuota);
}
