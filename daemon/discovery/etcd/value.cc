#include "daemon/discovery/etcd/value.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "onecopy/reasons.h"
#include "transport/core/base/name.h"

namespace onecopy::discovery {
namespace {

using Json = nlohmann::json;

constexpr int kValueVersion = 1;
constexpr size_t kMaxInstance = 64;

Status BadValue(const std::string& why) {
  return {Code::kInvalidArgument, reasons::kBadFormat, why};
}

const std::string* TextAt(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() ? nullptr : found->get_ptr<const std::string*>();
}

bool IsInstance(std::string_view text) {
  return !text.empty() && text.size() <= kMaxInstance &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

std::string PrintValue(const Value& value) {
  return Json{{"version", kValueVersion},
              {"name", value.name},
              {"address", value.address},
              {"instance", value.instance}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Value> ParseValue(std::string_view text) {
  if (text.size() > kMaxValueBytes) {
    return BadValue("the value is longer than " + std::to_string(kMaxValueBytes) + " bytes");
  }
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return BadValue("the value is not a JSON object");
  const auto version = json.find("version");
  if (version == json.end() || !version->is_number_integer()) {
    return BadValue("the value has no version");
  }
  if (*version != kValueVersion) {
    return Status(Code::kUnimplemented, reasons::kBadFormat,
                  "the value is of another version than " + std::to_string(kValueVersion));
  }
  const std::string* const name = TextAt(json, "name");
  const std::string* const address = TextAt(json, "address");
  const std::string* const instance = TextAt(json, "instance");
  if (name == nullptr || !IsName(*name)) return BadValue("the value has no node's name");
  if (address == nullptr || address->empty()) return BadValue("the value has no address");
  if (instance != nullptr && !IsInstance(*instance)) {
    return BadValue("the value's instance is not hexadecimal");
  }
  return Value{*name, *address, instance == nullptr ? std::string() : *instance};
}

std::string NodeKey(const std::string& prefix, const std::string& name) { return prefix + name; }

std::string ClaimKey(const std::string& prefix, const std::string& name,
                     const std::string& instance) {
  return prefix + name + "/" + instance;
}

ParsedKey ParseKey(const std::string& prefix, std::string_view key) {
  if (!key.starts_with(prefix)) return {};
  key.remove_prefix(prefix.size());
  const size_t slash = key.find('/');
  const std::string_view name = key.substr(0, slash);
  if (!IsName(name)) return {};
  if (slash == std::string_view::npos) return {std::string(name), {}};
  const std::string_view instance = key.substr(slash + 1);
  if (!IsInstance(instance)) return {};
  return {std::string(name), std::string(instance)};
}

std::string EndOf(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');  // all keys
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

}  // namespace onecopy::discovery
