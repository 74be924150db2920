// Memory of kind dmabuf: no GPU, and nothing that the processor addresses.
#include "daemon/plan/planner.h"
#include "tests/support/catch.h"
#include "tests/unit/plan/nodes.h"

using namespace onecopy;
using namespace onecopy::plan;
using onecopy::testing::RefusalOf;

namespace {

NodeCapability WithDmaBuf(const std::string& name) {
  NodeCapability node = testing::Node(name);
  MemoryCapability memory;
  memory.kind = "dmabuf";
  node.memories.push_back(memory);
  for (LinkCapability& link : node.links) {
    for (NicCapability& nic : link.nics) {
      if (link.name == "verbs") nic.memories.push_back({"dmabuf", {}, {}});
    }
  }
  return node;
}

Request Between(const NodeCapability& from, const std::string& from_kind, const NodeCapability& to,
                const std::string& to_kind) {
  const auto device = [](const NodeCapability& node, const std::string& kind) {
    for (const MemoryCapability& memory : node.memories) {
      if (memory.kind == kind) return memory.device;
    }
    return std::string();
  };
  Request request;
  request.source = {&from, from_kind, device(from, from_kind)};
  request.destination = {&to, to_kind, device(to, to_kind)};
  request.bytes = uint64_t{1} << 30;
  return request;
}

}  // namespace

TEST_CASE("a NIC that lists dma-bufs moves them in one copy") {
  const NodeCapability a = WithDmaBuf("rail-a");
  const NodeCapability b = WithDmaBuf("rail-b");
  const auto plan = MakePlan(Between(a, "dmabuf", b, "dmabuf"));
  REQUIRE_OK(plan);
  CHECK(plan->path == "rdma-direct");
  CHECK(plan->link == "verbs");
  REQUIRE(plan->copies() == 1);
  CHECK(plan->steps[0].from == "dmabuf");
}

TEST_CASE("a NIC that does not has its own reason, and slots are filled by the processor") {
  NodeCapability a = WithDmaBuf("rail-a");
  const NodeCapability b = WithDmaBuf("rail-b");
  for (LinkCapability& link : a.links) {
    for (NicCapability& nic : link.nics) {
      std::erase_if(nic.memories, [](const NicMemory& memory) { return memory.kind == "dmabuf"; });
    }
  }
  const auto plan = MakePlan(Between(a, "dmabuf", b, "dmabuf"));
  REQUIRE_OK(plan);
  CHECK(plan->path == "rdma-bounce");
  CHECK(plan->source_staged);
  CHECK(plan->steps[0].by == "cpu");
  const Refusal& refusal = RefusalOf(plan->refused, "rdma-direct");
  CHECK(refusal.detail.find("dmabuf memory") != std::string::npos);
}

TEST_CASE("sockets take it through slots") {
  const NodeCapability a = WithDmaBuf("laptop");
  const NodeCapability b = testing::Node("vm-a");
  Request request = Between(a, "dmabuf", b, "host");
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "tcp-bounce");
  CHECK(plan->source_staged);
  CHECK(RefusalOf(plan->refused, "tcp-direct").detail.find("dmabuf memory of laptop") !=
        std::string::npos);
}

TEST_CASE("inside a node one pass does but for a GPU at the other end") {
  const NodeCapability node = WithDmaBuf("consumer");
  for (const char* other : {"host", "dmabuf"}) {
    INFO(other);
    const auto plan = MakePlan(Between(node, "dmabuf", node, other));
    REQUIRE_OK(plan);
    CHECK(plan->path == "local");
    REQUIRE(plan->copies() == 1);
    CHECK(plan->steps[0].by == "cpu");
  }
  for (const bool to_gpu : {false, true}) {
    INFO(to_gpu);
    const auto plan = MakePlan(to_gpu ? Between(node, "dmabuf", node, "cuda")
                                      : Between(node, "cuda", node, "dmabuf"));
    REQUIRE_OK(plan);
    CHECK(plan->path == "peer-bounce");
    REQUIRE(plan->copies() == 2);
    CHECK(plan->steps[to_gpu ? 0 : 1].by == "cpu");
    CHECK(plan->steps[to_gpu ? 1 : 0].by == "copy-engine");
    for (const char* better : {"peer-direct", "local"}) {
      CHECK(RefusalOf(plan->refused, better).detail.find("in one pass") != std::string::npos);
    }
  }
}
