#include "tests/cluster/neighbours.h"

#include <sstream>
#include <stdexcept>

#include "tests/cluster/users.h"

namespace onecopy::testing {
namespace {

std::vector<std::string> Arguments(const Node& node, const std::string& from, const std::string& to,
                                   uint64_t bytes, int under_way, Neighbour::By by) {
  std::vector<std::string> all = {node.run_dir(), from, to, std::to_string(bytes),
                                  std::to_string(under_way)};
  if (by == Neighbour::By::kCall) all.emplace_back("by-call");
  return all;
}

}  // namespace

Neighbour::Neighbour(uid_t uid, const Node& node, const std::string& from, const std::string& to,
                     uint64_t bytes, int under_way, By by)
    : process_({.program = (ProgramFolder() / "support" / "neighbour").string(),
                .arguments = Arguments(node, from, to, bytes, under_way, by),
                .input_file = "",
                .in_child = BecomeUser(uid)}) {}

void Neighbour::Begin() { Ask("begin"); }

uint64_t Neighbour::Count() { return std::stoull(Ask("count")); }

std::pair<double, double> Neighbour::Times(int count) {
  std::istringstream words(Ask("times " + std::to_string(count)));
  std::pair<double, double> times;
  words >> times.first >> times.second;
  return times;
}

std::string Neighbour::Ask(const std::string& line) {
  process_.Write(line + "\n");
  const std::string answer = process_.ReadLine();
  if (answer.empty()) throw std::runtime_error("the neighbour has ended");
  return answer;
}

void CreateWritten(uid_t uid, const Node& node, const std::string& name, uint64_t bytes,
                   const std::string& memory) {
  CommandAs(uid, node,
            {"buffer", "create", name, "--size", std::to_string(bytes), "--memory", memory});
  CommandAs(uid, node, {"cp", "-", name}, std::string(bytes, 'x'));
}

void CreateForTwo(const Node& node, uint64_t bytes) {
  for (const auto& [uid, whose] : {std::pair(kOwner, "1"), std::pair(kOther, "2")}) {
    CreateWritten(uid, node, std::string("from") + whose, bytes);
    CreateWritten(uid, node, std::string("to") + whose, bytes);
  }
}

}  // namespace onecopy::testing
