// A client's file at one end: which path it takes, in how many copies, and why no other.
#include "daemon/plan/planner.h"
#include "tests/support/catch.h"
#include "tests/unit/plan/nodes.h"

using namespace onecopy;
using namespace onecopy::plan;
using onecopy::testing::RefusalOf;

namespace {

NodeCapability WithStore(const std::string& name, Viability viability = {}) {
  NodeCapability node = testing::Node(name);
  StoreCapability store;
  store.name = "posix";
  store.viability = std::move(viability);
  node.stores.push_back(std::move(store));
  return node;
}

Request FileTo(const NodeCapability& node, const std::string& kind, const std::string& device,
               FilePass pass, FileUse use = FileUse::kRead) {
  Request request;
  request.source = {&node, kFileKind, {}};
  request.destination = {&node, kind, device};
  if (use == FileUse::kWrite) std::swap(request.source, request.destination);
  request.file = FileEnd{use, pass};
  request.bytes = uint64_t{1} << 30;
  return request;
}

std::string StepsTaken(const Path& path) {
  std::string text;
  for (const Step& step : path.steps) {
    text += (text.empty() ? "" : ", ") + step.from + ">" + step.to + " by " + step.by;
  }
  return text;
}

std::string GpuOf(const NodeCapability& node) {
  for (const MemoryCapability& memory : node.memories) {
    if (memory.kind == "cuda" && memory.viability.viable) return memory.device;
  }
  FAIL("the node has no GPU");
  return {};
}

}  // namespace

TEST_CASE("a file and host memory meet without a slot, and the page cache is a copy") {
  const NodeCapability node = WithStore("rail-a");
  const auto direct = MakePlan(FileTo(node, "host", {}, FilePass::kDirect));
  REQUIRE_OK(direct);
  CHECK(direct->path == "storage-bounce");
  CHECK(StepsTaken(*direct) == "file>host by storage");
  CHECK_FALSE(direct->source_staged);
  CHECK_FALSE(direct->destination_staged);
  const auto cached = MakePlan(FileTo(node, "host", {}, FilePass::kPageCache));
  REQUIRE_OK(cached);
  CHECK(StepsTaken(*cached) == "file>page-cache by storage, page-cache>host by cpu");
  const auto out = MakePlan(FileTo(node, "host", {}, FilePass::kPageCache, FileUse::kWrite));
  REQUIRE_OK(out);
  CHECK(StepsTaken(*out) == "host>page-cache by cpu, page-cache>file by storage");
  const auto memory = MakePlan(FileTo(node, "host", {}, FilePass::kMemory));
  REQUIRE_OK(memory);
  CHECK(StepsTaken(*memory) == "file>host by cpu");
  for (const Refusal& refusal : memory->refused) {
    INFO(refusal.path);
    CHECK(refusal.reason == "NOT_APPLICABLE");
  }
}

TEST_CASE("a file and a GPU meet in a slot") {
  const NodeCapability node = WithStore("rail-a");
  const std::string gpu = GpuOf(node);
  const auto in = MakePlan(FileTo(node, "cuda", gpu, FilePass::kDirect));
  REQUIRE_OK(in);
  CHECK(in->path == "storage-bounce");
  CHECK(StepsTaken(*in) == "file>pinned by storage, pinned>" + gpu + " by copy-engine");
  CHECK_FALSE(in->source_staged);
  CHECK(in->destination_staged);
  CHECK(RefusalOf(in->refused, "storage-direct").reason == "NO_GDS");
  const auto out = MakePlan(FileTo(node, "cuda", gpu, FilePass::kDirect, FileUse::kWrite));
  REQUIRE_OK(out);
  CHECK(StepsTaken(*out) == gpu + ">pinned by copy-engine, pinned>file by storage");
  CHECK(out->source_staged);
}

TEST_CASE("a policy counts what the page cache copies") {
  const NodeCapability node = WithStore("rail-a");
  Request request = FileTo(node, "host", {}, FilePass::kPageCache);
  request.policy.at_most_copies = 1;
  const auto refused = MakePlan(request);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().reason() == "POLICY_UNMET");
  CHECK(RefusalOf(refused.status().refusals(), "storage-bounce").reason == "MORE_COPIES");
  request.file->pass = FilePass::kDirect;
  CHECK(MakePlan(request).ok());
  request.policy = {};
  request.policy.path_glob = "storage-*";
  CHECK(MakePlan(request).ok());
  request.policy.path_glob = "storage-direct";
  CHECK_FALSE(MakePlan(request).ok());
}

TEST_CASE("without a store that works its reason is told") {
  const NodeCapability broken =
      WithStore("rail-a", Viability::No("NOT_APPLICABLE", "io_uring: not permitted", "allow it"));
  const auto refused = MakePlan(FileTo(broken, "host", {}, FilePass::kDirect));
  REQUIRE_FALSE(refused.ok());
  CHECK(RefusalOf(refused.status().refusals(), "storage-bounce").detail ==
        "io_uring: not permitted");
  const NodeCapability none = testing::Node("rail-a");
  const auto absent = MakePlan(FileTo(none, "host", {}, FilePass::kDirect));
  REQUIRE_FALSE(absent.ok());
  CHECK(RefusalOf(absent.status().refusals(), "storage-bounce").reason == "NOT_SERVED");
}
