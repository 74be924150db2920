// Two nodes, of which one writes into buffers of the other, and who is told of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "onecopy/arrival.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/memory.h"

namespace onecopy::testing {

inline constexpr uint64_t kArrivingBytes = 64 * 1024;

inline Result<bool> Done(EngineNode& node,
                         const std::function<void(engine::ClientApi&, engine::StatusReply)>& call) {
  return node.Ask<bool>([&](engine::ClientApi& api, auto reply) {
    call(api, [reply = std::move(reply)](const Status& status) mutable {
      reply(status.ok() ? Result<bool>(true) : Result<bool>(status));
    });
  });
}

inline Result<BufferInfo> Keeping(EngineNode& node, const engine::Principal& who,
                                  const std::string& name) {
  return node.Ask<BufferInfo>([&](engine::ClientApi& api, auto reply) {
    CreateBufferRequest request;
    request.name = name;
    request.bytes = kArrivingBytes;
    request.memory = "host";
    request.keep_arrivals = true;
    api.CreateBuffer(who, request, std::move(reply));
  });
}

inline Status Tell(EngineNode& node, const engine::Principal& who, const std::string& to,
                   const std::string& message, const std::string& request_id = {}) {
  return Done(node,
              [&](engine::ClientApi& api, auto reply) {
                api.SendMessage(who, {ParseEnd(to), message, request_id}, std::move(reply));
              })
      .status();
}

// One watch, and what it was told.
class Watching {
 public:
  Watching(EngineNode& node, const engine::Principal& who, const std::string& buffer)
      : node_(node), who_(who) {
    auto opened = node.Ask<uint64_t>([&](engine::ClientApi& api, auto reply) {
      reply(api.WatchArrivals(who, buffer, [this] { ++news_; }));
    });
    opened_ = opened.status();
    if (opened.ok()) watch_ = *opened;
  }
  ~Watching() { End(); }

  const Status& opened() const { return opened_; }
  // Everything that there is to take now.
  std::vector<Arrival> Take() {
    std::vector<Arrival> all;
    for (;;) {
      const auto told = node_.Ask<engine::ArrivalsTold>(
          [&](engine::ClientApi& api, auto reply) { reply(api.TakeArrivals(watch_)); });
      missed += told->batch.missed;
      end = told->end;
      if (told->batch.arrivals.empty()) return all;
      all.insert(all.end(), told->batch.arrivals.begin(), told->batch.arrivals.end());
    }
  }
  std::vector<std::string> Messages() {
    std::vector<std::string> messages;
    for (const Arrival& arrival : Take()) messages.push_back(arrival.message);
    return messages;
  }
  Status Acknowledge(uint64_t count) { return AcknowledgeAs(who_, count); }
  Status AcknowledgeAs(const engine::Principal& who, uint64_t count) {
    return Done(node_,
                [&](engine::ClientApi& api, auto reply) {
                  api.AcknowledgeArrivals(who, watch_, count, std::move(reply));
                })
        .status();
  }
  void End() {
    if (watch_ == 0) return;
    (void)node_.Ask<bool>([&](engine::ClientApi& api, auto reply) {
      api.UnwatchArrivals(watch_);
      reply(true);
    });
    watch_ = 0;
  }
  size_t news() {
    return *node_.Ask<size_t>([&](engine::ClientApi&, auto reply) { reply(news_); });
  }

  uint64_t missed = 0;
  Status end;

 private:
  EngineNode& node_;
  const engine::Principal who_;
  Status opened_;
  uint64_t watch_ = 0;
  size_t news_ = 0;  // engine thread
};

// Alice's buffer "a" on east and "b" on west, which she fills.
struct Arriving {
  explicit Arriving(const std::function<void(const std::string&, NodePlan&)>& change = {})
      : cluster({"east", "west"}, change),
        east(cluster["east"]),
        west(cluster["west"]),
        alice(east.Attach()),
        abroad(west.Attach()) {
    REQUIRE_OK(east.CreateBuffer(alice, "a", kArrivingBytes));
    auto made = west.Register(abroad, "b", kArrivingBytes);
    REQUIRE_OK(made);
    b = std::move(*made);
    cluster.WaitForPeer("west", "east", NodeState::kConnected);
    cluster.WaitForPeer("east", "west", NodeState::kConnected);
  }
  Result<TransferInfo> Write(const std::string& message,
                             const std::string& destination = "east:a") {
    TransferRequest request = Request("west:b", destination);
    request.message = message;
    return west.Copy(abroad, request);
  }

  EngineCluster cluster;
  EngineNode& east;
  EngineNode& west;
  engine::Principal alice;
  engine::Principal abroad;
  EngineNode::Registered b;
};

}  // namespace onecopy::testing
