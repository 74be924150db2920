// Two nodes, and a link between them whose gets a test lets fail, or do harm.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/fake_rdma.h"
#include "tests/support/memory.h"
#include "transport/link/tcp/frame.h"

namespace onecopy::testing {

using engine::Principal;

inline constexpr uint64_t kFragilePayload = (uint64_t{64} << 20) + 5;

// West reads from east, over a link whose gets a test lets fail.
struct Fragile {
  std::shared_ptr<FakeNics> reader = std::make_shared<FakeNics>();
  EngineCluster cluster;
  EngineNode& east;
  EngineNode& west;
  Principal in_east;
  Principal in_west;
  EngineNode::Registered a;
  EngineNode::Registered b;

  explicit Fragile(std::chrono::milliseconds resume_for = std::chrono::minutes(1))
      : cluster({"east", "west"},
                [this, resume_for](const std::string& name, NodePlan& plan) {
                  const auto nics = name == "east" ? std::make_shared<FakeNics>() : reader;
                  plan.links.push_back(MakeFakeRdma(MakeTcpLink(name), 1, nics));
                  plan.options.slot_bytes = 512 << 10;
                  plan.options.slots = 8;
                  plan.options.stall_timeout = std::chrono::milliseconds(300);
                  plan.options.resume_for = resume_for;
                }),
        east(cluster["east"]),
        west(cluster["west"]),
        in_east(east.Attach()),
        in_west(west.Attach()),
        a(Make(east, in_east, "a")),
        b(Make(west, in_west, "b")) {
    Fill(a.data, kFragilePayload, 1);
    cluster.WaitForPeer("west", "east", NodeState::kConnected);
  }

  static EngineNode::Registered Make(EngineNode& node, const Principal& who,
                                     const std::string& name) {
    auto made = node.Register(who, name, kFragilePayload);
    REQUIRE_OK(made);
    return std::move(*made);
  }
  // So many gets go well, and then so many fail.
  void LoseGets(int after, int count) {
    reader->Set(
        [left = std::make_shared<std::atomic<int>>(0), after, count](FakeNics::Hooks& hooks) {
          hooks.on_get = [left, after, count](const LaneInfo&) -> Status {
            const int number = left->fetch_add(1);
            if (number < after || number >= after + count) return OkStatus();
            return {Code::kUnavailable, reasons::kLinkDown, "lost by the test"};
          };
        });
  }
  // What east, as a peer, answers to a call.
  template <typename T>
  Result<T> AskEast(const std::function<void(engine::PeerApi&, engine::Reply<T>)>& call) {
    std::promise<Result<T>> answered;
    east.engine().loop().Post([&] {
      call(east.engine().node(), [&](Result<T> reply) { answered.set_value(std::move(reply)); });
    });
    return answered.get_future().get();
  }
  TransferInfo Copy(const std::string& path) {
    TransferRequest request = Request("east:a", "west:b");
    request.policy.path_glob = path;
    request.checksum = true;
    const auto copied = west.Copy(in_west, request);
    REQUIRE_OK(copied);
    return *copied;
  }
};

}  // namespace onecopy::testing
