// A client's file at one end: which path it takes, in how many copies, and why no other.
#include "daemon/plan/ladder.h"
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

namespace {

Request DirectTo(const NodeCapability& node, const std::string& gpu, Viability file, bool edges,
                 FileUse use = FileUse::kRead) {
  Request request = FileTo(node, "cuda", gpu, FilePass::kDirect, use);
  request.file->direct = {std::move(file), edges};
  return request;
}

NodeCapability WithDrive(Viability viability = {}) {
  NodeCapability node = WithStore("rail-a");
  StoreCapability store;
  store.name = "cufile";
  store.viability = std::move(viability);
  node.stores.push_back(std::move(store));
  return node;
}

}  // namespace

TEST_CASE("a file goes directly to a GPU where its drive and its driver do so") {
  const NodeCapability node = WithDrive();
  const std::string gpu = GpuOf(node);
  const auto in = MakePlan(DirectTo(node, gpu, {}, false));
  REQUIRE_OK(in);
  CHECK(in->path == "storage-direct");
  CHECK(StepsTaken(*in) == "file>" + gpu + " by storage");
  CHECK_FALSE(in->destination_staged);
  const auto out = MakePlan(DirectTo(node, gpu, {}, false, FileUse::kWrite));
  REQUIRE_OK(out);
  CHECK(StepsTaken(*out) == gpu + ">file by storage");
  // What is no whole block counts with all its copies.
  const auto edges = MakePlan(DirectTo(node, gpu, {}, true));
  REQUIRE_OK(edges);
  CHECK(edges->path == "storage-direct");
  CHECK(edges->copies() == 3);
  CHECK_FALSE(edges->destination_staged);
}

TEST_CASE("why a file does not go directly is the store's word first, then the file's") {
  const NodeCapability broken =
      WithDrive(Viability::No("COMPATIBILITY_MODE", "through host memory alone", "load nvidia-fs"));
  const std::string gpu = GpuOf(broken);
  const Viability unsupported = Viability::No("FILE_SYSTEM", "it lies on btrfs", "");
  const auto store = MakePlan(DirectTo(broken, gpu, unsupported, false));
  REQUIRE_OK(store);
  CHECK(store->path == "storage-bounce");
  CHECK(RefusalOf(store->refused, "storage-direct").reason == "COMPATIBILITY_MODE");
  const auto file = MakePlan(DirectTo(WithDrive(), gpu, unsupported, false));
  REQUIRE_OK(file);
  CHECK(RefusalOf(file->refused, "storage-direct").reason == "FILE_SYSTEM");
  // A store for GPUs is none for host memory.
  NodeCapability only = testing::Node("rail-a");
  only.stores.push_back({"cufile", {}, {}});
  const auto none = MakePlan(FileTo(only, "host", {}, FilePass::kDirect));
  REQUIRE_FALSE(none.ok());
  CHECK(RefusalOf(none.status().refusals(), "storage-bounce").reason == "NOT_SERVED");
}

namespace {

Request FileAcross(const NodeCapability& from, const NodeCapability& to, const std::string& kind,
                   const std::string& device, FilePass pass, FileUse use = FileUse::kRead) {
  Request request = FileTo(from, kind, device, pass, use);
  (use == FileUse::kRead ? request.destination : request.source).node = &to;
  return request;
}

}  // namespace

TEST_CASE("a file and memory of another node meet by a store, then a link, and all is counted") {
  const NodeCapability file = WithStore("laptop");
  const NodeCapability other = testing::Twin(testing::Node("laptop"), "other");
  const auto direct = MakePlan(FileAcross(file, other, "host", {}, FilePass::kDirect));
  REQUIRE_OK(direct);
  CHECK(direct->path == "storage-bounce+tcp-bounce");
  CHECK(direct->link == "tcp");
  CHECK(StepsTaken(*direct) ==
        "file>pinned by storage, pinned>kernel by cpu, kernel>kernel by wire, kernel>host by cpu");
  CHECK(direct->source_staged);
  CHECK_FALSE(direct->destination_staged);
  const auto cached = MakePlan(FileAcross(file, other, "host", {}, FilePass::kPageCache));
  REQUIRE_OK(cached);
  CHECK(cached->copies() == 5);
  CHECK(StepsTaken(*cached).starts_with(
      "file>page-cache by storage, page-cache>pinned by cpu, pinned>kernel by cpu"));
  const auto out =
      MakePlan(FileAcross(file, other, "host", {}, FilePass::kPageCache, FileUse::kWrite));
  REQUIRE_OK(out);
  CHECK(out->path == "storage-bounce+tcp-bounce");
  CHECK(StepsTaken(*out) ==
        "host>kernel by cpu, kernel>kernel by wire, kernel>pinned by cpu, "
        "pinned>page-cache by cpu, page-cache>file by storage");
  CHECK_FALSE(out->source_staged);
  CHECK(out->destination_staged);
  for (const Refusal& refusal : direct->refused) {
    INFO(refusal.path);
    CHECK(refusal.path != "tcp-bounce");
    const bool storage = refusal.path == "storage-direct" || refusal.path == "storage-bounce";
    CHECK((refusal.reason == "OTHER_NODE") == storage);
  }
}

TEST_CASE("a file goes to another node's memory by RDMA where there is some") {
  const NodeCapability file = WithStore("rail-a");
  const NodeCapability other = testing::Node("rail-b");
  const auto host = MakePlan(FileAcross(file, other, "host", {}, FilePass::kDirect));
  REQUIRE_OK(host);
  CHECK(host->path == "storage-bounce+rdma-bounce");
  CHECK(StepsTaken(*host) == "file>pinned by storage, pinned>host by wire");
  const auto gpu = MakePlan(FileAcross(file, other, "cuda", GpuOf(other), FilePass::kDirect));
  REQUIRE_OK(gpu);
  CHECK(gpu->path.starts_with("storage-bounce+rdma-"));
  CHECK(gpu->source_staged);
  CHECK(gpu->steps.front().from == "file");
  CHECK(gpu->steps.back().to == GpuOf(other));
  Request named = FileAcross(file, other, "host", {}, FilePass::kDirect);
  named.policy.path_glob = "storage-bounce+tcp-staged";
  const auto staged = MakePlan(named);
  REQUIRE_OK(staged);
  CHECK(staged->path == "storage-bounce+tcp-staged");
  CHECK(staged->copies() == 5);
  CHECK(staged->destination_staged);
}

TEST_CASE("policies, refusals and what has failed know the paths of a file and a link") {
  const NodeCapability file = WithStore("laptop");
  const NodeCapability other = testing::Twin(testing::Node("laptop"), "other");
  Request request = FileAcross(file, other, "host", {}, FilePass::kPageCache);
  request.policy.at_most_copies = 4;
  const auto refused = MakePlan(request);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().reason() == "POLICY_UNMET");
  CHECK(RefusalOf(refused.status().refusals(), "storage-bounce+tcp-bounce").reason ==
        "MORE_COPIES");
  CHECK(RefusalOf(refused.status().refusals(), "tcp-direct").reason == "NOT_APPLICABLE");
  request.policy = {};
  for (const char* other_path : {"storage-bounce", "tcp-bounce", "rdma-*"}) {
    request.policy.path_glob = other_path;
    const auto unmet = MakePlan(request);
    REQUIRE_FALSE(unmet.ok());
    CHECK(unmet.status().reason() == "POLICY_UNMET");
  }
  request.policy.path_glob = "storage-bounce+tcp-direct";
  const auto nothing = MakePlan(request);
  REQUIRE_FALSE(nothing.ok());
  CHECK(nothing.status().reason() == "BAD_POLICY");
  request.policy.path_glob = "storage-*";
  const auto first = MakePlan(request);
  REQUIRE_OK(first);
  CHECK(CarrierOf(first->path) == Carrier::kTcp);
  CHECK(HasFile(first->path));
  // What turned out impossible is not taken again, and is named as it was.
  request.policy = {};
  request.excluded = {Exclusion::Of(*first, {Code::kFailedPrecondition, "PIN_FAILED", "no pin"})};
  const auto second = MakePlan(request);
  REQUIRE_OK(second);
  CHECK(second->path == "storage-bounce+tcp-staged");
  CHECK(RefusalOf(second->refused, "storage-bounce+tcp-bounce").reason == "PIN_FAILED");
  // A store that does not work counts on the file's own node alone.
  const NodeCapability broken = WithStore("laptop", Viability::No("NOT_APPLICABLE", "no io_uring"));
  CHECK_FALSE(MakePlan(FileAcross(broken, other, "host", {}, FilePass::kDirect)).ok());
}
