// Two nodes for small transfers between them by rings.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "tests/support/memory.h"
#include "tests/unit/engine/ring_of.h"

namespace onecopy::testing {

inline constexpr uint64_t kBetweenBytes = 16 * 1024;

// Alice's buffer "a" on east, and on west "b" of hers, whose session has a ring.
struct Between {
  EngineCluster cluster;
  EngineNode& east;
  EngineNode& west;
  Principal in_east;
  Principal in_west;
  EngineNode::Registered a;
  EngineNode::Registered b;

  explicit Between(uint32_t reader = 1000,
                   const std::function<void(const std::string&, NodePlan&)>& change = {})
      : cluster({"east", "west"}, change),
        east(cluster["east"]),
        west(cluster["west"]),
        in_east(east.Attach(1000)),
        in_west(west.Attach(reader)),
        a(Make(east, in_east, "a")),
        b(Make(west, in_west, "b")) {
    Fill(a.data, kBetweenBytes, 1);
    cluster.WaitForPeer("west", "east", NodeState::kConnected);
  }

  static EngineNode::Registered Make(EngineNode& node, const Principal& who,
                                     const std::string& name) {
    auto made = node.Register(who, name, kBetweenBytes);
    REQUIRE_OK(made);
    return std::move(*made);
  }
  Result<bool> InEast(const std::function<void(ClientApi&, StatusReply)>& call) {
    return In(east, call);
  }
  static Result<bool> In(EngineNode& node,
                         const std::function<void(ClientApi&, StatusReply)>& call) {
    return node.Ask<bool>([&](ClientApi& api, auto reply) {
      call(api, [reply = std::move(reply)](const Status& status) mutable {
        reply(status.ok() ? Result<bool>(true) : Result<bool>(status));
      });
    });
  }
  Result<GrantInfo> Grant(const std::string& range, uint32_t uid) {
    return GrantOn(east, in_east, range, std::to_string(uid) + "@west", true);
  }
  static Result<GrantInfo> GrantOn(EngineNode& node, const Principal& who, const std::string& range,
                                   const std::string& to, bool read) {
    return node.Ask<GrantInfo>([&](ClientApi& api, auto reply) {
      api.CreateGrant(
          who, {.range = ParseEnd(range), .to = to, .read = read, .write = !read, .lifetime = {}},
          std::move(reply));
    });
  }
  Result<TransferInfo> Get(const TransferId& id) {
    return west.Ask<TransferInfo>(
        [&](ClientApi& api, auto reply) { api.GetTransfer(in_west, id, std::move(reply)); });
  }
};

inline void CheckOver(const ring::Ended& ended) { CHECK(ended.code != Code::kOk); }

}  // namespace onecopy::testing
