// What a node writes to etcd about itself, and how others read it.
#pragma once

#include <string>
#include <string_view>

#include "onecopy/result.h"

namespace onecopy::discovery {

// What is longer is not read.
inline constexpr size_t kMaxValueBytes = 4096;

// {"version":1,"name":"east","address":"10.0.0.1:7701","instance":"…"}
struct Value {
  std::string name;
  std::string address;   // HOST:PORT
  std::string instance;  // another one after each start of the daemon

  friend bool operator==(const Value&, const Value&) = default;
};

std::string PrintValue(const Value& value);

// Takes fields that it does not know. INVALID_ARGUMENT (BAD_FORMAT) for what is no such value,
// UNIMPLEMENTED (BAD_FORMAT) for one of another version.
Result<Value> ParseValue(std::string_view text);

// The key of node NAME is PREFIX + NAME. A node that finds its name taken says so at PREFIX + NAME
// +
// "/" + its instance, for the node that has the name.
std::string NodeKey(const std::string& prefix, const std::string& name);
std::string ClaimKey(const std::string& prefix, const std::string& name,
                     const std::string& instance);
struct ParsedKey {
  std::string name;      // empty: it is no key of ours
  std::string instance;  // empty: it is a node's, else a claim
};
ParsedKey ParseKey(const std::string& prefix, std::string_view key);

// The first key after all of those that begin with `prefix`, as etcd's ranges want it.
std::string EndOf(std::string prefix);

}  // namespace onecopy::discovery
