#include <sstream>

#include "daemon/config/config.h"
#include "daemon/config/sections.h"
#include "tests/support/catch.h"
#include "tests/unit/config/schema.h"
#include "transport/memory/host/factory.h"

using onecopy::config::Defaults;
using onecopy::config::Parse;
using onecopy::config::PrintDefault;
using onecopy::config::Schema;
using onecopy::config::Sections;
using onecopy::config::TopKeys;
using onecopy::testing::TestSchema;

namespace {

std::vector<std::string> Lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// "#slots = 64": a key that is commented out, not a comment for people.
bool IsCommentedOut(const std::string& line) {
  return line.size() > 1 && line[0] == '#' && line[1] != ' ';
}

}  // namespace

TEST_CASE("the printed file reads as the defaults") {
  const std::string text = PrintDefault(TestSchema());
  const auto config = Parse(text, "default", TestSchema());
  REQUIRE_OK(config);
  CHECK(*config == Defaults(TestSchema()));
}

TEST_CASE("every key of the printed file has its default, once the # is removed") {
  std::string text;
  bool in_example = false;
  size_t keys = 0;
  for (const std::string& line : Lines(PrintDefault(TestSchema()))) {
    if (line.starts_with("#[")) in_example = true;
    if (line.starts_with("[")) in_example = false;
    const bool set = IsCommentedOut(line) && !in_example;
    keys += set ? 1 : 0;
    text += (set ? line.substr(1) : line) + "\n";
  }
  INFO(text);
  size_t wanted = TopKeys().size();
  for (const auto& section : Sections(TestSchema())) wanted += section.keys.size();
  CHECK(keys == wanted);
  const auto config = Parse(text, "default", TestSchema());
  REQUIRE_OK(config);
  CHECK(*config == Defaults(TestSchema()));
}

TEST_CASE("the printed peer is one once the # is removed and the address is filled in") {
  std::string text;
  for (const std::string& line : Lines(PrintDefault(TestSchema()))) {
    if (line == "#[peers.west]") text += "[peers.west]\n";
    if (line == "#address = \"\"") text += "address = \"10.0.0.2:7701\"\n";
  }
  const auto config = Parse(text, "default", TestSchema());
  REQUIRE_OK(config);
  CHECK(config->peers.at("west").addresses.front().port == 7701);
}

TEST_CASE("the printed export is one once the # is removed and the path is filled in") {
  std::string text;
  for (const std::string& line : Lines(PrintDefault(TestSchema()))) {
    if (line == "#[exports.data]") text += "[exports.data]\n";
    if (line == "#path = \"\"") text += "path = \"/data\"\n";
    if (line == "#read = \"\"") text += line.substr(1) + "\n";
  }
  const auto config = Parse(text, "default", TestSchema());
  REQUIRE_OK(config);
  CHECK(config->exports.at("data").path == "/data");
  CHECK(config->exports.at("data").read.empty());
  CHECK(config->exports.at("data").write.empty());
  CHECK(config->exports.at("data").mode == 0640);
  CHECK_FALSE(config->exports.at("data").follow_beneath);
  CHECK(Defaults(TestSchema()).exports.empty());
}

TEST_CASE("the printed shares are some once the # is removed and the users are filled in") {
  std::string text;
  for (const std::string& line : Lines(PrintDefault(TestSchema()))) {
    if (line == "#[qos.training]") text += "[qos.training]\n";
    if (line == "#users = \"\"") text += "users = \"1000\"\n";
    for (const char* key : {"#weight = ", "#rate_limit = ", "#priority = "}) {
      if (line.starts_with(key)) text += line.substr(1) + "\n";
    }
  }
  const auto config = Parse(text, "default", TestSchema());
  REQUIRE_OK(config);
  REQUIRE(config->shares.contains("training"));
  CHECK(config->shares.at("training").users.size() == 1);
  CHECK(config->shares.at("training").nodes.empty());
  CHECK(config->shares.at("training").weight == 1U);
  CHECK(config->shares.at("training").rate_limit_bytes_per_second == 0U);
  CHECK(config->shares.at("training").priority == onecopy::Priority::kNormal);
  CHECK(Defaults(TestSchema()).shares.empty());
}

TEST_CASE("every key of the printed file is explained above it, within a hundred columns") {
  const std::vector<std::string> lines = Lines(PrintDefault({}));
  CHECK(lines[0].starts_with("# "));
  for (size_t i = 1; i < lines.size(); ++i) {
    INFO(lines[i]);
    CHECK(lines[i].size() <= 100);
    if (IsCommentedOut(lines[i])) CHECK(lines[i - 1].starts_with("# "));
  }
}

TEST_CASE("a backend's own settings are in the file") {
  Schema schema;
  const auto host = onecopy::host::Describe();
  schema.backends[host.name] = host.settings;
  CHECK(PrintDefault(schema).find("[host]\n# Threads that copy") != std::string::npos);
  auto config = Parse("[host]\ncopy_threads = 3\n", "f", schema);
  REQUIRE_OK(config);
  CHECK(config->backends.at("host").Integer("copy_threads") == 3);
  CHECK_FALSE(Parse("[host]\ncopy_threads = 65\n", "f", schema).ok());
}
