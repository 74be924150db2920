// Settings that can describe themselves: the configuration file, its checks and its commented
// default are made from these, so a backend brings its own without touching the daemon.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace onecopy {

using SettingValue = std::variant<bool, int64_t, std::string, std::vector<std::string>>;

enum class SettingType {
  kBool,
  kInteger,
  kText,
  kTextList,
  kBytes,     // written "64MiB" or as a number; held as int64_t bytes
  kDuration,  // written "30s", "200ms"; held as int64_t milliseconds
};

struct SettingSpec {
  std::string key;
  SettingType type = SettingType::kText;
  SettingValue fallback;  // used where the file does not set the key
  std::string doc;        // what it does, in one or two lines, with its unit
  int64_t least = 0;      // bounds of numbers, inclusive
  int64_t most = INT64_MAX;
  std::vector<std::string> choices = {};  // the only values of a kText; empty: any
};

// The values of one section, complete: every key of its specs is present.
class Settings {
 public:
  Settings() = default;
  explicit Settings(const std::vector<SettingSpec>& specs) {
    for (const SettingSpec& spec : specs) values_[spec.key] = spec.fallback;
  }

  void Set(const std::string& key, SettingValue value) { values_[key] = std::move(value); }

  const std::map<std::string, SettingValue>& values() const { return values_; }

  // Asking for a key that the specs do not have, or as another type, is a programming error
  // (throws).
  bool Bool(const std::string& key) const { return std::get<bool>(values_.at(key)); }
  int64_t Integer(const std::string& key) const { return std::get<int64_t>(values_.at(key)); }
  const std::string& Text(const std::string& key) const {
    return std::get<std::string>(values_.at(key));
  }
  const std::vector<std::string>& TextList(const std::string& key) const {
    return std::get<std::vector<std::string>>(values_.at(key));
  }
  uint64_t Bytes(const std::string& key) const { return static_cast<uint64_t>(Integer(key)); }
  std::chrono::milliseconds Duration(const std::string& key) const {
    return std::chrono::milliseconds(Integer(key));
  }

  friend bool operator==(const Settings&, const Settings&) = default;

 private:
  std::map<std::string, SettingValue> values_;
};

}  // namespace onecopy
