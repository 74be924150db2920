// The copies that docs/concepts.md has for each path between memories are those that are planned.
#include <fstream>
#include <map>
#include <regex>
#include <string>

#include "tests/support/catch.h"
#include "tests/unit/plan/nodes.h"

namespace concepts_test {
namespace {

using onecopy::NodeCapability;
using onecopy::plan::MakePlan;
using onecopy::testing::Move;

// Ends between which a path has its usual steps.
struct Ends {
  const char* source;
  const char* destination;
};

const std::map<std::string, Ends> kEnds = {
    {"rdma-direct", {"rail-a/cuda:2", "rail-b/cuda:5"}},
    {"peer-direct", {"hopper-pair/cuda:0", "hopper-pair/cuda:1"}},
    {"local", {"laptop/host", "laptop/host"}},
    {"rdma-bounce", {"no-dmabuf/cuda:0", "roce/cuda:0"}},
    {"peer-bounce", {"hopper-pair/cuda:0", "hopper-pair/cuda:1"}},
    {"rdma-staged", {"rail-a/host", "rail-b/host"}},
    {"tcp-direct", {"laptop/host", "consumer/host"}},
    {"tcp-bounce", {"consumer/cuda:1", "laptop/host"}},
    {"tcp-staged", {"hopper-pair/cuda:0", "consumer/cuda:1"}},
};

size_t CopiesOf(const std::string& path, bool with_certificates) {
  auto request = Move(kEnds.at(path).source, kEnds.at(path).destination);
  NodeCapability source = *request.source.node;
  NodeCapability destination = *request.destination.node;
  for (NodeCapability* node : {&source, &destination}) {
    for (auto& link : node->links) {
      if (!with_certificates || link.name != "tcp") continue;
      link.attributes["encrypted"] = "yes";
      link.attributes["encrypts"] = "by daemon";
    }
  }
  const bool within = request.source.node == request.destination.node;
  request.source.node = &source;
  request.destination.node = within ? &source : &destination;
  request.policy.path_glob = path;
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  return plan->copies();
}

}  // namespace

TEST_CASE("the ladder of docs/concepts.md has the copies of each path") {
  std::ifstream page(ONECOPY_SOURCE_DIR "/docs/concepts.md");
  REQUIRE(page);
  const std::regex row(R"(\| (\d)(?: \((\d)\))? \| `([a-z-]+)` \|.*)");
  size_t found = 0;
  for (std::string line; std::getline(page, line);) {
    std::smatch cells;
    if (!std::regex_match(line, cells, row) || kEnds.count(cells[3]) == 0) continue;
    CAPTURE(line);
    CHECK(CopiesOf(cells[3], false) == std::stoul(cells[1]));
    CHECK(CopiesOf(cells[3], true) == std::stoul(cells[2].matched ? cells[2] : cells[1]));
    ++found;
  }
  CHECK(found == kEnds.size());
}

}  // namespace concepts_test
