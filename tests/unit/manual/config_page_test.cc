#include "deploy/manual/config_page.h"

#include "daemon/config/sections.h"
#include "deploy/manual/roff.h"
#include "tests/support/catch.h"

using onecopy::config::Schema;
using onecopy::manual::PrintConfigPage;

TEST_CASE("every section and every key of the configuration is on its page") {
  const Schema schema{{}, {"cuda"}};
  const std::string page = PrintConfigPage(schema, {5, "onecopy 1", {}});
  const auto sections = onecopy::config::SectionsToRead(schema);
  CHECK(sections.size() == onecopy::config::Sections(schema).size() + 3);
  for (const auto& section : sections) {
    INFO(section.name);
    CHECK(page.find(onecopy::manual::Heading("[" + section.name + "]")) != std::string::npos);
    for (const auto& key : section.keys) {
      INFO(key.key);
      CHECK(page.find(onecopy::manual::Bold(key.key) + " = ") != std::string::npos);
    }
  }
}
