// A client's descriptor beside its handle: whether both name the same memory.
#include <algorithm>
#include <atomic>
#include <thread>

#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/fake_rdma.h"
#include "tests/support/memory.h"
#include "tests/support/text.h"
#include "transport/core/base/mutex.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kPairBytes = 100'003;

struct RegistrationRig {
  RegistrationRig()
      : cluster({"east", "west"},
                [this](const std::string& name, NodePlan& plan) {
                  controls[name] = std::make_shared<FakeNics>();
                  plan.links.push_back(MakeFakeRdma(MakeTcpLink(name), 2, controls[name]));
                }),
        east(cluster["east"]),
        west(cluster["west"]),
        alice(east.Attach()),
        bob(west.Attach()) {
    // Which path comes first is not to depend on what a probe of the fake link finds.
    cluster.FailCalls("OpenProbe");
    auto a = east.Register(alice, "a", kPairBytes);
    auto b = west.Register(bob, "b", kPairBytes);
    REQUIRE_OK(a);
    REQUIRE_OK(b);
    source = *a;
    sink = *b;
    Fill(source.data, kPairBytes, 1);
    Fill(sink.data, kPairBytes, 2);
    for (auto& [node, control] : controls) {
      control->Set([](FakeNics::Hooks& hooks) {
        hooks.on_register = [](const std::string& nic, const Region& region) {
          return NicRegistration{nic, region.bytes() == kPairBytes ? "dma-buf" : "host", {}};
        };
      });
    }
  }

  // The registrations of what is as large as the buffers name `other` instead.
  void NameInstead(const std::string& node, RegionRef other) {
    controls[node]->Set([other](FakeNics::Hooks& hooks) {
      hooks.names_instead = [other](const RegionRef& region) {
        return region->bytes() == kPairBytes ? other : nullptr;
      };
    });
  }

  TransferInfo Copy(const std::string& glob, const std::string& from = "east:a") {
    TransferRequest request = Request(from, "west:b");
    request.policy.path_glob = glob;
    auto copied = west.Copy(bob, request);
    REQUIRE_OK(copied);
    return *copied;
  }

  std::map<std::string, std::shared_ptr<FakeNics>> controls;
  EngineCluster cluster;
  EngineNode& east;
  EngineNode& west;
  Principal alice;
  Principal bob;
  EngineNode::Registered source;
  EngineNode::Registered sink;
};

}  // namespace

TEST_CASE("a descriptor that names the buffer's memory is believed once it was compared") {
  RegistrationRig rig;
  const TransferInfo copied = rig.Copy("rdma-direct");
  INFO(copied.error.ToString());
  CHECK(copied.state == TransferState::kSucceeded);
  CHECK(std::equal(rig.source.data, rig.source.data + kPairBytes, rig.sink.data));
}

TEST_CASE("a descriptor that names other memory is refused, and the transfer takes its next path") {
  const std::string node = GENERATE("east", "west");
  CAPTURE(node);
  RegistrationRig rig;
  const RegionRef other = HostRegion(kPairBytes);
  Fill({other, 0, kPairBytes}, 99);
  rig.NameInstead(node, other);
  for (int time = 0; time < 2; ++time) {
    const TransferInfo copied = rig.Copy("*-direct");
    INFO(copied.error.ToString());
    REQUIRE(copied.state == TransferState::kSucceeded);
    CHECK(copied.receipt.path == "tcp-direct");
    CHECK(std::equal(rig.source.data, rig.source.data + kPairBytes, rig.sink.data));
    const auto& refused = copied.receipt.refused;
    const auto refusal = std::find_if(refused.begin(), refused.end(),
                                      [](const Refusal& one) { return one.path == "rdma-direct"; });
    REQUIRE(refusal != refused.end());
    CHECK(refusal->reason == reasons::kBadHandle);
    CHECK(Has(refusal->detail, node == "east" ? "buffer \"a\"" : "buffer \"b\""));
    CHECK(Has(refusal->detail, "nic0"));
  }
  // What was shown of the other memory went nowhere.
  CHECK(FirstWrong({other, 0, kPairBytes}, 99) == kPairBytes);
}

TEST_CASE("that only the last page differs is noticed") {
  RegistrationRig rig;
  const RegionRef other = HostRegion(kPairBytes);
  std::copy_n(rig.source.data, kPairBytes, other->address());
  other->address()[kPairBytes - 1] ^= std::byte{1};
  rig.NameInstead("east", other);
  CHECK(rig.Copy("*-direct").receipt.path == "tcp-direct");
}

TEST_CASE("under a policy without another path the transfer fails with the reason") {
  RegistrationRig rig;
  const RegionRef other = HostRegion(kPairBytes);
  rig.NameInstead("east", other);
  const TransferInfo copied = rig.Copy("rdma-direct");
  CHECK(copied.state == TransferState::kFailed);
  CHECK(copied.error.reason() == reasons::kPolicyUnmet);
  const auto& refusals = copied.error.refusals();
  CHECK(std::any_of(refusals.begin(), refusals.end(),
                    [](const Refusal& refusal) { return refusal.reason == reasons::kBadHandle; }));
}

TEST_CASE("a client that writes meanwhile is no reason to refuse its memory") {
  RegistrationRig rig;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    // Some bytes of each page, as a counter in it would be.
    for (uint8_t value = 0; !stop; ++value) {
      for (uint64_t i = 0; i < 64; ++i) {
        rig.source.data[i] = std::byte{value};
        rig.source.data[kPairBytes - 1 - i] = std::byte{value};
      }
      std::this_thread::yield();
    }
  });
  const TransferInfo copied = rig.Copy("rdma-direct");
  stop = true;
  writer.join();
  INFO(copied.error.ToString());
  CHECK(copied.state == TransferState::kSucceeded);
}

TEST_CASE("the daemon's own memory needs no comparison") {
  RegistrationRig rig;
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "own", kPairBytes));
  const RegionRef other = HostRegion(kPairBytes);
  Fill({other, 0, kPairBytes}, 5);
  rig.NameInstead("east", other);
  // Were it compared it would be refused: what arrives shows whose bytes were read.
  const TransferInfo copied = rig.Copy("rdma-direct", "east:own");
  CHECK(copied.state == TransferState::kSucceeded);
  CHECK(FirstWrong({other, 0, kPairBytes}, 5) == kPairBytes);
  CHECK(std::equal(other->address(), other->address() + kPairBytes, rig.sink.data));
}

namespace {

// Holds whoever registers the buffer, which is told by its length, until it is opened.
class Gate {
 public:
  void Pass(const Region& region) {
    if (region.bytes() != kPairBytes) return;
    const MutexLock lock(mutex_);
    waiting_ = true;
    changed_.NotifyAll();
    while (!open_) changed_.Wait(mutex_);
  }
  void AwaitSomebody() {
    const MutexLock lock(mutex_);
    while (!waiting_) changed_.Wait(mutex_);
  }
  void Open() {
    const MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  Condition changed_;
  bool waiting_ ONECOPY_GUARDED_BY(mutex_) = false;
  bool open_ ONECOPY_GUARDED_BY(mutex_) = false;
};

}  // namespace

TEST_CASE("a transfer that waits for memory to be made known says so, and can be cancelled") {
  const std::string slow = GENERATE("east", "west");
  const bool cancel = GENERATE(true, false);
  CAPTURE(slow, cancel);
  RegistrationRig rig;
  const auto gate = std::make_shared<Gate>();
  rig.controls[slow]->Set([gate](FakeNics::Hooks& hooks) {
    hooks.on_register = [gate](const std::string& nic, const Region& region) {
      gate->Pass(region);
      return NicRegistration{nic, "host", {}};
    };
  });
  TransferRequest request = Request("east:a", "west:b");
  request.policy.path_glob = "rdma-direct";
  auto started = rig.west.Start(rig.bob, request);
  REQUIRE_OK(started);
  gate->AwaitSomebody();
  const auto get = [&] {
    auto seen = rig.west.Ask<TransferInfo>([&](ClientApi& api, auto reply) {
      api.GetTransfer(rig.bob, started->id, std::move(reply));
    });
    REQUIRE_OK(seen);
    return *seen;
  };
  TransferInfo seen = get();
  while (seen.waits_for != "memory of node " + slow + " to be made ready") {
    REQUIRE(seen.state == TransferState::kPending);
    std::this_thread::yield();
    seen = get();
  }
  if (cancel) {
    REQUIRE_OK(rig.west.Ask<TransferInfo>([&](ClientApi& api, auto reply) {
      api.CancelTransfer(rig.bob, started->id, std::move(reply));
    }));
    CHECK(rig.west.Wait(rig.bob, started->id).state == TransferState::kCancelled);
  }
  gate->Open();
  const TransferInfo ended = rig.west.Wait(rig.bob, started->id);
  INFO(ended.error.ToString());
  CHECK(ended.state == (cancel ? TransferState::kCancelled : TransferState::kSucceeded));
}
