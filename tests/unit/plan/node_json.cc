#include "tests/unit/plan/node_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace onecopy::testing {
namespace {

using nlohmann::json;

// Takes an object's keys one after the other; what nobody has taken is a mistake in the file.
class Object {
 public:
  explicit Object(const json& value) : value_(value) {
    for (const auto& entry : value.items()) left_.insert(entry.key());
  }

  template <typename T>
  Object& Take(const char* key, T& into) {
    left_.erase(key);
    if (value_.contains(key)) value_.at(key).get_to(into);
    return *this;
  }
  template <typename T, typename Read>
  Object& TakeAll(const char* key, std::vector<T>& into, Read read) {
    left_.erase(key);
    if (!value_.contains(key)) return *this;
    for (const json& element : value_.at(key)) into.push_back(read(element));
    return *this;
  }
  Object& TakeViability(Viability& into) {
    left_.erase("viability");
    if (!value_.contains("viability")) return *this;
    Object(value_.at("viability"))
        .Take("viable", into.viable)
        .Take("reason", into.reason)
        .Take("detail", into.detail)
        .Take("remedy", into.remedy)
        .Done();
    return *this;
  }
  void Done() const {
    if (!left_.empty()) throw std::runtime_error("no field is called " + *left_.begin());
  }

 private:
  const json& value_;
  std::set<std::string> left_;
};

MemoryCapability ReadMemory(const json& value) {
  MemoryCapability memory;
  Object(value)
      .Take("kind", memory.kind)
      .Take("device", memory.device)
      .Take("name", memory.name)
      .Take("address", memory.address)
      .Take("ordinal", memory.ordinal)
      .Take("total_bytes", memory.total_bytes)
      .Take("cpu_addressable", memory.cpu_addressable)
      .Take("direct_peers", memory.direct_peers)
      .Take("attributes", memory.attributes)
      .TakeViability(memory.viability)
      .Done();
  return memory;
}

NicMemory ReadNicMemory(const json& value) {
  NicMemory memory;
  Object(value)
      .Take("kind", memory.kind)
      .Take("device", memory.device)
      .TakeViability(memory.viability)
      .Done();
  return memory;
}

NicCapability ReadNic(const json& value) {
  NicCapability nic;
  Object(value)
      .Take("name", nic.name)
      .Take("address", nic.address)
      .Take("fabric", nic.fabric)
      .Take("bytes_per_second", nic.bytes_per_second)
      .Take("emulated", nic.emulated)
      .TakeViability(nic.viability)
      .TakeAll("memories", nic.memories, ReadNicMemory)
      .Done();
  return nic;
}

LinkCapability ReadLink(const json& value) {
  LinkCapability link;
  Object(value)
      .Take("name", link.name)
      .Take("version", link.version)
      .Take("version_must_match", link.version_must_match)
      .Take("rdma", link.rdma)
      .Take("attributes", link.attributes)
      .TakeViability(link.viability)
      .TakeAll("nics", link.nics, ReadNic)
      .Done();
  return link;
}

StoreCapability ReadStore(const json& value) {
  StoreCapability store;
  Object(value)
      .Take("name", store.name)
      .Take("attributes", store.attributes)
      .TakeViability(store.viability)
      .Done();
  return store;
}

}  // namespace

NodeCapability ReadNode(const std::string& text) {
  const json value = json::parse(text);
  NodeCapability node;
  Object(value)
      .Take("node", node.node)
      .Take("host", node.host)
      .TakeAll("memories", node.memories, ReadMemory)
      .TakeAll("links", node.links, ReadLink)
      .TakeAll("stores", node.stores, ReadStore)
      .Done();
  return node;
}

}  // namespace onecopy::testing
