// What failed when it was tried, and the ways that are left.
#include <string>
#include <string_view>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/unit/plan/nodes.h"

using onecopy::Code;
using onecopy::LinkCapability;
using onecopy::NodeCapability;
using onecopy::Status;
using onecopy::plan::Exclusion;
using onecopy::plan::MakePlan;
using onecopy::plan::Path;
using onecopy::plan::Request;
using onecopy::testing::Move;
using onecopy::testing::Node;
using onecopy::testing::RefusalOf;
namespace reasons = onecopy::reasons;

namespace {

NodeCapability WithUcx(const std::string& name) {
  NodeCapability node = Node(name);
  LinkCapability ucx = *node.FindLink("verbs");
  ucx.name = "ucx";
  node.links.push_back(std::move(ucx));
  return node;
}

// Two nodes whose devices verbs and ucx use alike.
struct TwoLinks {
  TwoLinks() : request(Move("rail-a/cuda:0", "rail-b/cuda:0")) {
    request.source.node = &source;
    request.destination.node = &destination;
  }

  Path Next() {
    const auto plan = MakePlan(request);
    REQUIRE_OK(plan);
    return *plan;
  }
  void Fail(const Path& path, const Status& why) {
    request.excluded.push_back(Exclusion::Of(path, why));
  }
  // No path is left: these were refused, with one reason.
  void CheckRefused(const std::vector<std::string>& paths, std::string_view reason,
                    std::string_view detail) const {
    const auto none = MakePlan(request);
    REQUIRE_FALSE(none.ok());
    for (const std::string& path : paths) {
      const onecopy::Refusal refusal = RefusalOf(none.status().refusals(), path);
      CHECK(refusal.reason == reason);
      CHECK(refusal.detail == detail);
    }
  }

  const NodeCapability source = WithUcx("rail-a");
  const NodeCapability destination = WithUcx("rail-b");
  Request request;
};

const Status kNoKey(Code::kResourceExhausted, reasons::kKeysExhausted, "no window is left");

}  // namespace

TEST_CASE("a path that failed over one link is tried over the other") {
  TwoLinks two;
  two.request.policy.path_glob = "rdma-direct";
  const Path first = two.Next();
  CHECK(first.link == "verbs");
  two.Fail(first, kNoKey);
  const Path second = two.Next();
  CHECK(second.path == "rdma-direct");
  CHECK(second.link == "ucx");
  two.Fail(second, {Code::kResourceExhausted, reasons::kKeysExhausted, "no rkey is left"});
  two.CheckRefused({"rdma-direct"}, reasons::kKeysExhausted, "no window is left; no rkey is left");
}

TEST_CASE("a bounce that failed at one end is tried at the other") {
  TwoLinks two;
  two.request.policy.path_glob = "rdma-bounce";
  two.request.policy.link = "verbs";
  const Path first = two.Next();
  two.Fail(first, kNoKey);
  const Path second = two.Next();
  CHECK(second.path == "rdma-bounce");
  CHECK(second.source_staged == first.destination_staged);
  CHECK(second.destination_staged == first.source_staged);
  two.Fail(second, kNoKey);
  CHECK_FALSE(MakePlan(two.request).ok());
}

TEST_CASE("a link that does not connect is left alone, however a path is staged") {
  TwoLinks two;
  two.request.policy.path_glob = "rdma-*";
  const Path first = two.Next();
  const char* reason = GENERATE(reasons::kLinkDown.data(), reasons::kNicUnreachable.data());
  two.Fail(first, {Code::kUnavailable, reason, "no lane came up"});
  const Path second = two.Next();
  CHECK(second.link == "ucx");
  two.Fail(second, {Code::kUnavailable, reason, "no endpoint came up"});
  two.CheckRefused({"rdma-direct", "rdma-bounce", "rdma-staged"}, reason,
                   "no lane came up; no endpoint came up");
}
