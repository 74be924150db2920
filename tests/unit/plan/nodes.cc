#include "tests/unit/plan/nodes.h"

#include <stdexcept>

#include "tests/unit/plan/node_json.h"

namespace onecopy::testing {
namespace {

const MemoryCapability& MemoryOf(const std::string& text) {
  const size_t slash = text.find('/');
  const std::string name = text.substr(slash + 1);
  for (const MemoryCapability& memory : Node(text.substr(0, slash)).memories) {
    const std::string typed =
        memory.kind + (memory.ordinal < 0 ? "" : ":" + std::to_string(memory.ordinal));
    if (typed == name) return memory;
  }
  throw std::runtime_error("no memory is called " + text);
}

}  // namespace

const std::vector<NodeCapability>& Nodes() {
  static const std::vector<NodeCapability> nodes = [] {
    std::vector<NodeCapability> read;
    for (const std::string& text : NodeTexts()) read.push_back(ReadNode(text));
    return read;
  }();
  return nodes;
}

const NodeCapability& Node(const std::string& name) {
  for (const NodeCapability& node : Nodes()) {
    if (node.node == name) return node;
  }
  throw std::runtime_error("no node is called " + name);
}

NodeCapability Twin(const NodeCapability& node, const std::string& name) {
  NodeCapability twin = node;
  twin.node = name;
  return twin;
}

plan::End End(const std::string& text) {
  const MemoryCapability& memory = MemoryOf(text);
  return {&Node(text.substr(0, text.find('/'))), memory.kind, memory.device};
}

std::string StepNameOf(const std::string& text) {
  const MemoryCapability& memory = MemoryOf(text);
  return memory.device.empty() ? memory.kind : memory.device;
}

plan::Request Move(const std::string& source, const std::string& destination) {
  plan::Request request;
  request.source = End(source);
  request.destination = End(destination);
  request.bytes = uint64_t{1} << 30;
  return request;
}

void Measure(plan::Request& request, const std::string& path, const std::string& link,
             plan::PathRate rate) {
  plan::PathRates rates;
  rates.fill(rate);
  for (const bool source : {false, true}) {
    for (const bool destination : {false, true}) {
      request.estimates.MeasuredPath({path,
                                      link,
                                      {request.source.kind, request.source.device},
                                      {request.destination.kind, request.destination.device},
                                      source,
                                      destination},
                                     rates);
    }
  }
}

void Measure(plan::Request& request, const std::string& path, const std::string& link,
             double bytes_per_second) {
  Measure(request, path, link, {.bytes_per_second = bytes_per_second, .transfers = 2});
}

const Refusal& RefusalOf(const std::vector<Refusal>& refused, std::string_view path) {
  for (const Refusal& refusal : refused) {
    if (refusal.path == path) return refusal;
  }
  throw std::runtime_error(std::string(path) + " was not refused");
}

}  // namespace onecopy::testing
