// The backends that the tests' configuration files have sections for.
#pragma once

#include "daemon/config/config.h"

namespace onecopy::testing {

// One key of each type, a section without keys, and two libraries.
inline config::Schema TestSchema() {
  config::Schema schema;
  schema.backends["host"] = {};
  schema.backends["tcp"] = {
      {.key = "lanes",
       .type = SettingType::kInteger,
       .fallback = int64_t{8},
       .doc = "Sockets of one connection.",
       .least = 1,
       .most = 64},
      {.key = "interfaces",
       .type = SettingType::kTextList,
       .fallback = std::vector<std::string>{"eth0", "odd\"\\name"},
       .doc = "Network devices to use."},
      {.key = "buffer", .type = SettingType::kBytes, .fallback = int64_t{5000}, .doc = "Size."},
      {.key = "linger",
       .type = SettingType::kDuration,
       .fallback = int64_t{1500},
       .doc = "How long a connection that nobody uses is kept.",
       .most = 60'000},
      {.key = "quick",
       .type = SettingType::kBool,
       .fallback = true,
       .doc = std::string(300, 'x') + " is one word, and the rest of this text has to be wrapped "
                                      "into lines of a hundred columns, as all comments are."},
      {.key = "label", .type = SettingType::kText, .fallback = std::string("tab\there"), .doc = ""},
  };
  schema.libraries = {"cuda", "ibverbs"};
  return schema;
}

}  // namespace onecopy::testing
