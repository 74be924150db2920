// What holds for every pair of memories and every policy.
#include <algorithm>

#include "daemon/plan/ladder.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/unit/plan/nodes.h"
#include "transport/core/base/glob.h"

namespace onecopy::plan {
namespace {

std::vector<Policy> Policies() {
  std::vector<Policy> policies;
  for (const char* glob : {"", "*", "tcp-*", "*-direct", "*-staged", "rdma-bounce", "peer-*"}) {
    policies.push_back({.path_glob = glob, .at_most_copies = {}, .link = {}});
  }
  for (const Rung& rung : kLadder) {
    policies.push_back({.path_glob = std::string(rung.name), .at_most_copies = {}, .link = {}});
  }
  for (uint32_t copies = 1; copies <= 5; ++copies) {
    for (const bool emulated : {false, true}) {
      policies.push_back(
          {.path_glob = {}, .at_most_copies = copies, .link = {}, .allow_emulated = emulated});
    }
  }
  for (const char* link : {"tcp", "verbs", "ucx"}) {
    policies.push_back({.path_glob = {}, .at_most_copies = {}, .link = link});
    policies.push_back({.path_glob = "*-bounce", .at_most_copies = 2, .link = link});
  }
  return policies;
}

// The copies that a path of this name has, by the table of the documentation.
uint32_t CopiesOf(const Rung& rung) {
  const uint32_t staged = rung.shape == Shape::kDirect ? 0 : rung.shape == Shape::kBounce ? 1 : 2;
  return staged + (rung.carrier == Carrier::kTcp ? 3 : 1);
}

std::string NameOf(const End& end) { return end.device.empty() ? end.kind : end.device; }

bool IsExplained(const Refusal& refusal) {
  return !refusal.reason.empty() && !refusal.detail.empty();
}

// What is wrong with the route; empty when nothing is.
std::string FaultOf(const Request& request, const Path& path, const Rung& rung) {
  if (path.copies() != CopiesOf(rung)) return "its steps do not fit its name";
  if (path.steps.front().from != NameOf(request.source)) return "it does not begin at the source";
  if (path.steps.back().to != NameOf(request.destination)) return "it does not end at the end";
  const bool one_node = request.source.node->node == request.destination.node->node;
  // Two daemons of one host share GPU memory without a link.
  const bool in_place =
      rung.carrier == Carrier::kPeer && request.source.node->host == request.destination.node->host;
  if (path.link.empty() != (one_node || in_place)) return "a link inside a node, or none between";
  const int staged = (path.source_staged ? 1 : 0) + (path.destination_staged ? 1 : 0);
  if (staged != static_cast<int>(rung.shape)) return "it stages other ends than its name says";
  bool crossed = one_node || in_place;
  for (size_t i = 0; i < path.steps.size(); ++i) {
    const Step& step = path.steps[i];
    if (i > 0 && step.from != path.steps[i - 1].to) return "its steps do not chain";
    if (step.by == "wire") crossed = true;
    if (step.node != (crossed ? request.destination : request.source).node->node) {
      return "a step is on the wrong node";
    }
    if (step.emulated != (path.emulated && step.by == "wire"))
      return "emulation is not on the wire";
  }
  return path.estimated_bytes_per_second > 0 ? "" : "it has no estimate";
}

// Whether these are of the rungs above that one, in order. What is offered for files alone is
// refused only where it was asked for.
std::string FaultOf(std::vector<Refusal> refused, size_t above) {
  std::erase_if(refused, [](const Refusal& one) { return one.path == kThroughNearGpu; });
  std::vector<std::string_view> names;
  for (size_t i = 0; i < above; ++i) {
    if (kLadder[i].name != kThroughNearGpu) names.push_back(kLadder[i].name);
  }
  if (refused.size() != names.size()) return "refusals are not what is above it on the ladder";
  for (size_t i = 0; i < names.size(); ++i) {
    if (refused[i].path != names[i]) return "refusals are not in order";
    if (!IsExplained(refused[i])) return "a refusal does not say why";
  }
  return "";
}

std::string FaultOf(const Request& request, const Path& path) {
  const Policy& policy = request.policy;
  const auto* rung = std::find_if(kLadder.begin(), kLadder.end(),
                                  [&](const Rung& one) { return one.name == path.path; });
  if (rung == kLadder.end()) return "there is no such path";
  if (!policy.path_glob.empty() && !MatchesGlob(policy.path_glob, path.path)) return "other path";
  if (!policy.link.empty() && policy.link != path.link) return "other link";
  if (policy.at_most_copies && path.copies() > *policy.at_most_copies) return "more copies";
  if (policy.at_most_copies && path.emulated && !policy.allow_emulated) return "emulated";
  const auto above = static_cast<size_t>(rung - kLadder.begin());
  if (std::string fault = FaultOf(path.refused, above); !fault.empty()) return fault;
  return FaultOf(request, path, *rung);
}

std::string FaultOf(const Status& status) {
  if (status.code() != Code::kFailedPrecondition) return "other code";
  if (status.reason() != reasons::kPolicyUnmet) return "other reason";
  if (status.message().empty()) return "no message";
  return FaultOf(status.refusals(), kLadder.size());
}

std::string FaultOf(const Request& request, const Result<Path>& plan) {
  return plan.ok() ? FaultOf(request, *plan) : FaultOf(plan.status());
}

// Every memory of every node (of many like GPUs three), and a second daemon on one of the hosts.
std::vector<End> AllEnds() {
  static const NodeCapability twin = testing::Twin(testing::Node("hopper-pair"), "twin");
  std::vector<End> ends;
  const auto add = [&ends](const NodeCapability& node) {
    for (const MemoryCapability& memory : node.memories) {
      if (memory.ordinal >= 3) continue;
      ends.push_back({&node, memory.kind, memory.device});
    }
  };
  for (const NodeCapability& node : testing::Nodes()) add(node);
  add(twin);
  return ends;
}

std::string Print(const Request& request) {
  return NameOf(request.source) + " of " + request.source.node->node + " to " +
         NameOf(request.destination) + " of " + request.destination.node->node +
         ", path=" + request.policy.path_glob + " link=" + request.policy.link +
         " at-most=" + std::to_string(request.policy.at_most_copies.value_or(99));
}

// Runs `check` for every pair of ends and fails with the first fault it finds.
template <typename Check>
void ForEveryPair(Check check) {
  const std::vector<End> ends = AllEnds();
  for (const End& source : ends) {
    for (const End& destination : ends) {
      Request request;
      request.source = source;
      request.destination = destination;
      request.bytes = 1 << 20;
      const std::string fault = check(request);
      if (!fault.empty()) FAIL(Print(request) << ": " << fault);
    }
  }
  CHECK(ends.size() > testing::Nodes().size());
}

}  // namespace

TEST_CASE("every answer is a sound plan within the policy, or refuses every path of the ladder") {
  const std::vector<Policy> policies = Policies();
  ForEveryPair([&policies](Request& request) -> std::string {
    for (const Policy& policy : policies) {
      request.policy = policy;
      const Result<Path> plan = MakePlan(request);
      if (std::string fault = FaultOf(request, plan); !fault.empty()) return fault;
    }
    return "";
  });
}

TEST_CASE("planning twice gives the same") {
  ForEveryPair([](Request& request) -> std::string {
    const Result<Path> first = MakePlan(request);
    const Result<Path> second = MakePlan(request);
    if (first.ok() != second.ok()) return "once a plan, once none";
    if (first.ok() && *first != *second) return "two plans";
    if (!first.ok() && first.status().refusals() != second.status().refusals()) return "refusals";
    return "";
  });
}

TEST_CASE("what is taken by itself is also taken when it is asked for") {
  ForEveryPair([](Request& request) -> std::string {
    const Result<Path> open = MakePlan(request);
    if (!open.ok()) return "";
    request.policy.path_glob = open->path;
    request.policy.link = open->link;
    const Result<Path> named = MakePlan(request);
    return named.ok() && named->path == open->path ? "" : "asking for it gives something else";
  });
}

TEST_CASE("where nothing works without a policy, nothing works with one") {
  const std::vector<Policy> policies = Policies();
  ForEveryPair([&policies](Request& request) -> std::string {
    if (MakePlan(request).ok()) return "";
    for (const Policy& policy : policies) {
      request.policy = policy;
      if (MakePlan(request).ok()) return "a policy made something possible";
    }
    return "";
  });
}

TEST_CASE("a path that failed is not taken again, and the alternatives come to an end") {
  ForEveryPair([](Request& request) -> std::string {
    // Each path over each of three links, staged at either end.
    for (size_t attempt = 0; attempt <= 3 * kLadder.size(); ++attempt) {
      const Result<Path> plan = MakePlan(request);
      if (std::string fault = FaultOf(request, plan); !fault.empty()) return fault;
      if (!plan.ok()) return "";
      for (const Exclusion& excluded : request.excluded) {
        if (excluded.Covers(*plan)) return "it was taken again";
      }
      request.excluded.push_back(
          Exclusion::Of(*plan, {Code::kResourceExhausted, reasons::kKeysExhausted, "it broke"}));
    }
    return "there is always one more";
  });
}

}  // namespace onecopy::plan
