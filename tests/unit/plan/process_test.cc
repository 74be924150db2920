// Ordinary memory of processes: no link reaches it, and a slab is always between.
#include "daemon/plan/planner.h"
#include "tests/support/catch.h"
#include "tests/unit/plan/nodes.h"

using namespace onecopy;
using namespace onecopy::plan;
using onecopy::testing::RefusalOf;

namespace {

NodeCapability WithProcesses(const std::string& name) {
  NodeCapability node = testing::Node(name);
  MemoryCapability memory;
  for (const char* kind : {"process", "process-gpu"}) {
    memory.kind = kind;
    node.memories.push_back(memory);
  }
  return node;
}

Request MoveOf(const NodeCapability& from, const std::string& from_kind, const NodeCapability& to,
               const std::string& to_kind) {
  Request request;
  request.source = {&from, from_kind, {}};
  request.destination = {&to, to_kind, {}};
  request.bytes = uint64_t{1} << 30;
  return request;
}

std::string StepsOf(const Path& path) {
  std::string text;
  for (const Step& step : path.steps) {
    text += (text.empty() ? "" : ", ") + step.from + ">" + step.to + " by " + step.by;
  }
  return text;
}

}  // namespace

TEST_CASE("RDMA reads and writes the slabs of processes, and says why not their memory") {
  const NodeCapability a = WithProcesses("rail-a");
  const NodeCapability b = WithProcesses("rail-b");
  const auto both = MakePlan(MoveOf(a, "process", b, "process"));
  REQUIRE_OK(both);
  CHECK(both->path == "rdma-staged");
  CHECK(StepsOf(*both) == "process>slab by client, slab>slab by wire, slab>process by client");
  const Refusal& direct = RefusalOf(both->refused, "rdma-direct");
  CHECK(direct.reason == "NOT_APPLICABLE");
  CHECK(direct.remedy.find("HostBuffer") != std::string::npos);
  const auto one = MakePlan(MoveOf(a, "process", b, "host"));
  REQUIRE_OK(one);
  CHECK(one->path == "rdma-bounce");
  CHECK(one->source_staged);
  CHECK_FALSE(one->destination_staged);
  CHECK(StepsOf(*one) == "process>slab by client, slab>host by wire");
}

TEST_CASE("inside a node memory of a process is a pass farther than any other") {
  const NodeCapability a = WithProcesses("rail-a");
  const auto out = MakePlan(MoveOf(a, "process", a, "host"));
  REQUIRE_OK(out);
  CHECK(out->path == "peer-bounce");
  CHECK(StepsOf(*out) == "process>slab by client, slab>host by cpu");
  CHECK(RefusalOf(out->refused, "local").reason == "NOT_APPLICABLE");
  const auto in = MakePlan(MoveOf(a, "host", a, "process"));
  REQUIRE_OK(in);
  CHECK(StepsOf(*in) == "host>slab by cpu, slab>process by client");
  const auto between = MakePlan(MoveOf(a, "process", a, "process"));
  REQUIRE_OK(between);
  CHECK(between->source_staged);
  CHECK(between->destination_staged);
  CHECK(StepsOf(*between) == "process>slab by client, slab>slab by cpu, slab>process by client");
  Request one_copy = MoveOf(a, "process", a, "host");
  one_copy.policy.at_most_copies = 1;
  CHECK(MakePlan(one_copy).status().reason() == "POLICY_UNMET");
}

TEST_CASE("GPU memory that only its process reaches is told as such, with its own remedy") {
  const NodeCapability a = WithProcesses("rail-a");
  const NodeCapability b = WithProcesses("rail-b");
  const auto far = MakePlan(MoveOf(a, "process-gpu", b, "host"));
  REQUIRE_OK(far);
  CHECK(StepsOf(*far) == "process-gpu>slab by client, slab>host by wire");
  CHECK(RefusalOf(far->refused, "rdma-direct").remedy.find("cudaMalloc") != std::string::npos);
  const auto near = MakePlan(MoveOf(a, "process-gpu", a, "process"));
  REQUIRE_OK(near);
  CHECK(StepsOf(*near) == "process-gpu>slab by client, slab>slab by cpu, slab>process by client");
  const Refusal& local = RefusalOf(near->refused, "local");
  CHECK(local.detail.find("GPU memory of a process") != std::string::npos);
  CHECK(local.remedy.find("cudaMalloc") != std::string::npos);
}

TEST_CASE("memory of a process and a GPU of its node meet in the slab") {
  const NodeCapability a = WithProcesses("rail-a");
  for (const bool out : {true, false}) {
    Request request = MoveOf(a, "process", a, "process");
    (out ? request.destination : request.source) = testing::End("rail-a/cuda:0");
    const auto plan = MakePlan(request);
    REQUIRE_OK(plan);
    CHECK(plan->path == "peer-bounce");
    REQUIRE(plan->copies() == 2);
    CHECK(plan->steps[0].to == "slab");
    CHECK(plan->steps[out ? 0 : 1].by == "client");
    CHECK(plan->steps[out ? 1 : 0].by == "copy-engine");
  }
}
