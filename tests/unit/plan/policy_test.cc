// What the caller accepts, and what it hears when that cannot be had.
#include "daemon/plan/ladder.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/text.h"
#include "tests/unit/plan/nodes.h"

using onecopy::Code;
using onecopy::plan::MakePlan;
using onecopy::testing::Has;
using onecopy::testing::Move;
using onecopy::testing::RefusalOf;
namespace reasons = onecopy::reasons;

TEST_CASE("a path is taken when it is asked for by name or by glob") {
  const auto [glob, path] = GENERATE(table<const char*, const char*>({
      {"rdma-staged", "rdma-staged"},
      {"tcp-*", "tcp-staged"},
      {"*-staged", "rdma-staged"},
      {"?dma-b*", "rdma-bounce"},
      {"*", "rdma-direct"},
  }));
  auto request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  request.policy.path_glob = glob;
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == path);
}

TEST_CASE("a policy that no two nodes could meet is an invalid argument") {
  auto request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  SECTION("a path that does not exist") {
    request.policy.path_glob = "rdma-derict";
    const auto status = MakePlan(request).status();
    CHECK(Has(status.message(), "rdma-derict"));
    for (const auto& rung : onecopy::plan::kLadder) {
      CHECK(Has(status.remedy(), std::string(rung.name)));
    }
  }
  SECTION("a path that was mistyped, or is a kind of paths") {
    for (const auto& [typed, meant] : {std::pair{"rdma", "did you mean \"rdma-*\"?"},
                                       std::pair{"tcp", "did you mean \"tcp-*\"?"},
                                       std::pair{"rdma-derict", "did you mean rdma-direct?"}}) {
      request.policy.path_glob = typed;
      CHECK(Has(MakePlan(request).status().remedy(), meant));
    }
  }
  SECTION("a glob that fits none") { request.policy.path_glob = "udp-*"; }
  SECTION("no copy at all") { request.policy.at_most_copies = 0; }
  SECTION("a link that nobody has") { request.policy.link = "carrier-pigeon"; }
  const auto plan = MakePlan(request);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.status().code() == Code::kInvalidArgument);
  CHECK(plan.status().reason() == reasons::kBadPolicy);
  CHECK_FALSE(plan.status().remedy().empty());
}

TEST_CASE("a link that either node has is a link, as are the three that onecopy knows") {
  auto east = onecopy::testing::Node("laptop");
  onecopy::LinkCapability own;
  own.name = "own";
  east.links.push_back(own);
  auto request = Move("laptop/host", "consumer/host");
  request.source.node = &east;
  for (const char* link : {"own", "verbs", "ucx"}) {
    request.policy.link = link;
    const auto plan = MakePlan(request);
    REQUIRE_FALSE(plan.ok());
    CHECK(plan.status().reason() == reasons::kPolicyUnmet);
  }
  request.policy.link = "tcp";
  REQUIRE_OK(MakePlan(request));
}

TEST_CASE("what the policy excludes is refused as such, and what cannot work with its own reason") {
  auto request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  request.policy.path_glob = "tcp-direct";
  const auto plan = MakePlan(request);
  REQUIRE_FALSE(plan.ok());
  const auto refused = plan.status().refusals();
  CHECK(RefusalOf(refused, "rdma-direct").reason == reasons::kNotRequested);
  CHECK(RefusalOf(refused, "tcp-staged").reason == reasons::kNotRequested);
  CHECK(RefusalOf(refused, "tcp-direct").reason == reasons::kNotApplicable);
  CHECK(RefusalOf(refused, "peer-direct").reason == reasons::kOtherNode);
}

TEST_CASE("too many copies are refused with both numbers") {
  auto request = Move("hopper-pair/cuda:0", "consumer/cuda:0");
  request.policy.at_most_copies = 4;
  const auto plan = MakePlan(request);
  REQUIRE_FALSE(plan.ok());
  const auto refusal = RefusalOf(plan.status().refusals(), "tcp-staged");
  CHECK(refusal.reason == reasons::kMoreCopies);
  CHECK(refusal.detail == "it takes 5 copies, and the policy allows 4");
}

TEST_CASE("as many copies as the policy allows are fine") {
  auto request = Move("hopper-pair/cuda:0", "consumer/cuda:0");
  request.policy.at_most_copies = 5;
  REQUIRE_OK(MakePlan(request));
  request.policy.at_most_copies = UINT32_MAX;
  REQUIRE_OK(MakePlan(request));
}

TEST_CASE("an emulated device meets a limit on copies only where that is allowed") {
  auto request = Move("vm-a/host", "vm-b/host");
  request.policy.at_most_copies = 1;
  auto plan = MakePlan(request);
  REQUIRE_FALSE(plan.ok());
  CHECK(RefusalOf(plan.status().refusals(), "rdma-direct").reason == reasons::kEmulated);
  CHECK(RefusalOf(plan.status().refusals(), "tcp-direct").reason == reasons::kMoreCopies);

  request.policy.allow_emulated = true;
  plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "rdma-direct");
  CHECK(plan->emulated);
}

TEST_CASE("an emulated device that takes too many copies is refused for these") {
  auto request = Move("vm-a/host", "vm-b/host");
  request.policy.at_most_copies = 1;
  request.policy.path_glob = "rdma-staged";
  const auto plan = MakePlan(request);
  REQUIRE_FALSE(plan.ok());
  CHECK(RefusalOf(plan.status().refusals(), "rdma-staged").reason == reasons::kMoreCopies);
}

TEST_CASE("hardware is used where a limit on copies rules a software device out") {
  auto east = onecopy::testing::Node("vm-a");
  auto west = onecopy::testing::Node("vm-b");
  for (auto* node : {&east, &west}) {
    auto hardware = node->links.back().nics[0];
    hardware.name = "mlx5_0";
    hardware.emulated = false;
    node->links.back().nics.push_back(hardware);
  }
  auto request = Move("vm-a/host", "vm-b/host");
  request.source.node = &east;
  request.destination.node = &west;
  request.policy.at_most_copies = 1;
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK_FALSE(plan->emulated);
}

TEST_CASE("a named link excludes the others and paths without a link") {
  auto request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  request.policy.link = "tcp";
  auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "tcp-staged");
  CHECK(RefusalOf(plan->refused, "rdma-direct").reason == reasons::kNotRequested);

  request.policy.link = "ucx";
  plan = MakePlan(request);
  REQUIRE_FALSE(plan.ok());
  CHECK(RefusalOf(plan.status().refusals(), "rdma-direct").reason == reasons::kLinkMissing);
  CHECK(RefusalOf(plan.status().refusals(), "tcp-staged").reason == reasons::kNotRequested);

  request = Move("laptop/host", "laptop/host");
  request.policy.link = "tcp";
  plan = MakePlan(request);
  REQUIRE_FALSE(plan.ok());
  CHECK(RefusalOf(plan.status().refusals(), "local").reason == reasons::kNotRequested);
  CHECK(RefusalOf(plan.status().refusals(), "tcp-direct").reason == reasons::kSameNode);
}

TEST_CASE("who cannot have what was asked for hears what there is") {
  auto request = Move("hopper-pair/cuda:0", "consumer/cuda:0");
  request.policy.path_glob = "rdma-*";
  request.policy.at_most_copies = 2;
  request.policy.link = "verbs";
  const auto plan = MakePlan(request);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.status().code() == Code::kFailedPrecondition);
  CHECK(plan.status().reason() == reasons::kPolicyUnmet);
  CHECK(Has(plan.status().message(), "path=rdma-* at-most=2 link=verbs"));
  CHECK(Has(plan.status().message(), "without it, tcp-staged (5 copies, link tcp, "));
  CHECK(Has(plan.status().remedy(), "path=tcp-staged"));
}

TEST_CASE("what is excluded is refused as it was said, also where that leaves nothing") {
  auto request = Move("laptop/host", "consumer/host");
  const onecopy::Refusal failed{"tcp-direct", "LINK_DOWN", "no lane could be opened", "open 7702"};
  request.excluded = {{.refusal = failed, .link = "tcp", .whole_link = true}};
  const auto plan = MakePlan(request);
  REQUIRE_FALSE(plan.ok());
  CHECK(RefusalOf(plan.status().refusals(), "tcp-direct") == failed);
  CHECK(RefusalOf(plan.status().refusals(), "tcp-staged").detail == failed.detail);
}
