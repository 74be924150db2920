// The steps of every path, on machines where it works.
#include <map>

#include "tests/support/catch.h"
#include "tests/unit/plan/nodes.h"

using onecopy::Step;
using onecopy::plan::MakePlan;
using onecopy::plan::Path;
using onecopy::testing::Move;
using onecopy::testing::StepNameOf;

namespace {

// One line for each step: "rail-a: GPU -> wire -> host".
std::vector<std::string> Print(const std::vector<Step>& steps) {
  std::vector<std::string> lines;
  lines.reserve(steps.size());
  for (const Step& step : steps) {
    lines.push_back(step.node + ": " + step.from + " -> " + step.to + " by " + step.by +
                    (step.loopback ? ", loopback" : "") + (step.emulated ? ", emulated" : ""));
  }
  return lines;
}

Path Planned(const std::string& source, const std::string& destination, const std::string& path) {
  auto request = Move(source, destination);
  request.policy.path_glob = path;
  auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == path);
  return *plan;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("inside a node one copy does, between any two ends but two GPUs") {
  const std::string gpu = StepNameOf("consumer/cuda:0");
  CHECK(Print(Planned("laptop/host", "laptop/host", "local").steps) ==
        Lines{"laptop: host -> host by cpu"});
  CHECK(Print(Planned("consumer/host", "consumer/cuda:0", "local").steps) ==
        Lines{"consumer: host -> " + gpu + " by copy-engine"});
  CHECK(Print(Planned("consumer/cuda:0", "consumer/host", "local").steps) ==
        Lines{"consumer: " + gpu + " -> host by copy-engine"});
  CHECK(Print(Planned("consumer/cuda:0", "consumer/cuda:0", "local").steps) ==
        Lines{"consumer: " + gpu + " -> " + gpu + " by copy-engine"});
}

TEST_CASE("two GPUs that reach each other need one copy, others two") {
  const std::string a = StepNameOf("hopper-pair/cuda:0");
  const std::string b = StepNameOf("hopper-pair/cuda:1");
  CHECK(Print(Planned("hopper-pair/cuda:0", "hopper-pair/cuda:1", "peer-direct").steps) ==
        Lines{"hopper-pair: " + a + " -> " + b + " by copy-engine"});
  CHECK(Print(Planned("hopper-pair/cuda:0", "hopper-pair/cuda:1", "peer-bounce").steps) ==
        Lines{"hopper-pair: " + a + " -> pinned by copy-engine",
              "hopper-pair: pinned -> " + b + " by copy-engine"});
}

TEST_CASE("peer-bounce works between any two ends of a node when it is asked for") {
  const std::string gpu = StepNameOf("consumer/cuda:0");
  const Path host = Planned("laptop/host", "laptop/host", "peer-bounce");
  CHECK(Print(host.steps) ==
        Lines{"laptop: host -> pinned by cpu", "laptop: pinned -> host by cpu"});
  CHECK(host.source_staged);
  CHECK_FALSE(host.destination_staged);
  CHECK(host.link.empty());
  CHECK(Print(Planned("consumer/host", "consumer/cuda:0", "peer-bounce").steps) ==
        Lines{"consumer: host -> pinned by cpu", "consumer: pinned -> " + gpu + " by copy-engine"});
}

TEST_CASE("sockets copy into the kernel and out of it") {
  const Path path = Planned("laptop/host", "vm-a/host", "tcp-direct");
  CHECK(path.link == "tcp");
  CHECK_FALSE(path.source_staged);
  CHECK_FALSE(path.destination_staged);
  CHECK(Print(path.steps) == Lines{"laptop: host -> kernel by cpu",
                                   "vm-a: kernel -> kernel by wire",
                                   "vm-a: kernel -> host by cpu"});
}

TEST_CASE("where a daemon encrypts lanes that is a step of its own, at its end") {
  using onecopy::NodeCapability;
  const auto planned = [](std::map<std::string, std::string> source,
                          std::map<std::string, std::string> destination) {
    auto request = Move("laptop/host", "consumer/host");
    NodeCapability from = *request.source.node;
    NodeCapability to = *request.destination.node;
    const auto set = [](NodeCapability& node, const std::map<std::string, std::string>& said) {
      for (auto& link : node.links) {
        if (link.name != "tcp") continue;
        for (const auto& [name, value] : said) link.attributes[name] = value;
      }
    };
    set(from, source);
    set(to, destination);
    request.source.node = &from;
    request.destination.node = &to;
    request.policy.path_glob = "tcp-direct";
    auto plan = MakePlan(request);
    REQUIRE_OK(plan);
    return Print(plan->steps);
  };
  const Lines plain = {"laptop: host -> kernel by cpu", "consumer: kernel -> kernel by wire",
                       "consumer: kernel -> host by cpu"};
  CHECK(planned({}, {}) == plain);
  CHECK(planned({{"encrypted", "no"}, {"encrypts", "by daemon"}},
                {{"encrypted", "no"}, {"encrypts", "by daemon"}}) == plain);
  const Lines both = {"laptop: host -> tls by cpu", "laptop: tls -> kernel by cpu",
                      "consumer: kernel -> kernel by wire", "consumer: kernel -> tls by cpu",
                      "consumer: tls -> host by cpu"};
  CHECK(planned({{"encrypted", "yes"}, {"encrypts", "by daemon"}},
                {{"encrypted", "no"}, {"encrypts", "by daemon"}}) == both);
  CHECK(planned({{"encrypted", "yes"}, {"encrypts", "by kernel"}},
                {{"encrypted", "yes"}, {"encrypts", "by kernel"}}) == plain);
  CHECK(planned({{"encrypted", "yes"}, {"encrypts", "by daemon"}},
                {{"encrypted", "yes"}, {"encrypts", "by kernel"}}) ==
        Lines{both[0], both[1], plain[1], plain[2]});
}

TEST_CASE("a GPU behind sockets is staged on its own side") {
  const std::string gpu = StepNameOf("consumer/cuda:1");
  const Path from = Planned("consumer/cuda:1", "laptop/host", "tcp-bounce");
  CHECK(from.source_staged);
  CHECK_FALSE(from.destination_staged);
  CHECK(Print(from.steps) ==
        Lines{"consumer: " + gpu + " -> pinned by copy-engine", "consumer: pinned -> kernel by cpu",
              "laptop: kernel -> kernel by wire", "laptop: kernel -> host by cpu"});
  const Path to = Planned("laptop/host", "consumer/cuda:1", "tcp-bounce");
  CHECK_FALSE(to.source_staged);
  CHECK(to.destination_staged);
  CHECK(Print(to.steps) == Lines{"laptop: host -> kernel by cpu",
                                 "consumer: kernel -> kernel by wire",
                                 "consumer: kernel -> pinned by cpu",
                                 "consumer: pinned -> " + gpu + " by copy-engine"});
}

TEST_CASE("two GPUs behind sockets are staged on both sides") {
  const std::string from = StepNameOf("hopper-pair/cuda:0");
  const std::string to = StepNameOf("consumer/cuda:1");
  const Path path = Planned("hopper-pair/cuda:0", "consumer/cuda:1", "tcp-staged");
  CHECK(path.source_staged);
  CHECK(path.destination_staged);
  CHECK(Print(path.steps) == Lines{"hopper-pair: " + from + " -> pinned by copy-engine",
                                   "hopper-pair: pinned -> kernel by cpu",
                                   "consumer: kernel -> kernel by wire",
                                   "consumer: kernel -> pinned by cpu",
                                   "consumer: pinned -> " + to + " by copy-engine"});
}

TEST_CASE("host memory is staged where that is asked for") {
  CHECK(Print(Planned("laptop/host", "vm-a/host", "tcp-bounce").steps) ==
        Lines{"laptop: host -> pinned by cpu", "laptop: pinned -> kernel by cpu",
              "vm-a: kernel -> kernel by wire", "vm-a: kernel -> host by cpu"});
  CHECK(Print(Planned("laptop/host", "vm-a/host", "tcp-staged").steps) ==
        Lines{"laptop: host -> pinned by cpu", "laptop: pinned -> kernel by cpu",
              "vm-a: kernel -> kernel by wire", "vm-a: kernel -> pinned by cpu",
              "vm-a: pinned -> host by cpu"});
  CHECK(Print(Planned("rail-a/host", "rail-b/host", "rdma-staged").steps) ==
        Lines{"rail-a: host -> pinned by cpu", "rail-b: pinned -> pinned by wire",
              "rail-b: pinned -> host by cpu"});
}

TEST_CASE("a GPU whose memory is within the CPU's reach needs no staging") {
  auto coherent = onecopy::testing::Twin(onecopy::testing::Node("consumer"), "coherent");
  coherent.host = "host-coherent";
  for (auto& memory : coherent.memories) memory.cpu_addressable = true;
  auto request = Move("laptop/host", "consumer/cuda:0");
  request.destination.node = &coherent;
  auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "tcp-direct");
  CHECK(plan->steps.back().to == StepNameOf("consumer/cuda:0"));
  request.policy.path_glob = "tcp-bounce";
  plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->destination_staged);
  CHECK_FALSE(plan->source_staged);
}

TEST_CASE("RDMA goes from memory to memory in one step") {
  const Path path = Planned("rail-a/cuda:2", "rail-b/cuda:5", "rdma-direct");
  CHECK(path.link == "verbs");
  CHECK_FALSE(path.emulated);
  CHECK(Print(path.steps) == Lines{"rail-b: " + StepNameOf("rail-a/cuda:2") + " -> " +
                                   StepNameOf("rail-b/cuda:5") + " by wire"});
}

TEST_CASE("a GPU that its NIC cannot register is staged on its own side") {
  const std::string stuck = StepNameOf("no-dmabuf/cuda:0");
  const std::string free = StepNameOf("roce/cuda:0");
  const Path from = Planned("no-dmabuf/cuda:0", "roce/cuda:0", "rdma-bounce");
  CHECK(from.source_staged);
  CHECK_FALSE(from.destination_staged);
  CHECK(Print(from.steps) == Lines{"no-dmabuf: " + stuck + " -> pinned by copy-engine",
                                   "roce: pinned -> " + free + " by wire"});
  const Path to = Planned("roce/cuda:0", "no-dmabuf/cuda:0", "rdma-bounce");
  CHECK_FALSE(to.source_staged);
  CHECK(to.destination_staged);
  CHECK(Print(to.steps) == Lines{"no-dmabuf: " + free + " -> pinned by wire",
                                 "no-dmabuf: pinned -> " + stuck + " by copy-engine"});
}

TEST_CASE("a software device marks its path and its wire as emulated") {
  const Path path = Planned("vm-a/host", "vm-b/host", "rdma-direct");
  CHECK(path.emulated);
  CHECK(Print(path.steps) == Lines{"vm-b: host -> host by wire, emulated"});
}

TEST_CASE("between two daemons of one host the wire is a loopback") {
  const auto west = onecopy::testing::Twin(onecopy::testing::Node("hopper-pair"), "west");
  auto request = Move("hopper-pair/cuda:0", "hopper-pair/cuda:1");
  request.destination.node = &west;
  request.policy.path_glob = "tcp-staged";
  auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  REQUIRE(plan->copies() == 5);
  CHECK(plan->steps[2] == Step{.node = "west",
                               .from = "kernel",
                               .to = "kernel",
                               .by = "wire",
                               .loopback = true,
                               .emulated = false});
}

TEST_CASE("nodes that do not tell their host are not taken for one") {
  auto east = onecopy::testing::Node("laptop");
  east.host.clear();
  const auto west = onecopy::testing::Twin(east, "west");
  auto request = Move("laptop/host", "laptop/host");
  request.source.node = &east;
  request.destination.node = &west;
  auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "tcp-direct");
  CHECK_FALSE(plan->steps[1].loopback);
}
