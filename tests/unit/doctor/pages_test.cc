// What the documents say that the doctor finds.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "tests/support/catch.h"

namespace pages_test {
namespace {

const std::filesystem::path kSource = ONECOPY_SOURCE_DIR;

std::string TextOf(const std::filesystem::path& file) {
  std::ifstream in(file);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::set<std::string> Matches(const std::string& text, const std::string& form) {
  std::set<std::string> all;
  const std::regex pattern(form);
  for (auto at = std::sregex_iterator(text.begin(), text.end(), pattern);
       at != std::sregex_iterator(); ++at) {
    all.insert((*at)[1]);
  }
  return all;
}

// The codes of findings, as its code has them. Those of a driver or of libcufile are reasons.
std::set<std::string> CodesInCode() {
  std::set<std::string> all = {"NO_DRIVER", "DRIVER_TOO_OLD", "DRIVER_FAILED"};
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "client/doctor")) {
    if (entry.path().extension() == ".cc")
      all.merge(Matches(TextOf(entry.path()), "\"([A-Z0-9]+(?:_[A-Z0-9]+)+)\""));
  }
  // Options of a kernel.
  std::erase_if(all, [](const std::string& word) { return word.starts_with("CONFIG_"); });
  return all;
}

}  // namespace

TEST_CASE("the README has every finding, and each is one") {
  const std::set<std::string> codes = CodesInCode();
  const std::string readme = TextOf(kSource / "client/doctor/README.md");
  const std::set<std::string> listed =
      Matches(readme.substr(readme.find("| code |")), "`([A-Z0-9]+(?:_[A-Z0-9]+)+)`");
  CHECK(listed.size() > 30);
  for (const std::string& code : listed) {
    CAPTURE(code);
    CHECK(codes.contains(code));
  }
  for (const std::string& code : codes) {
    CAPTURE(code);
    CHECK(listed.contains(code));
  }
}

TEST_CASE("a step of docs/rdma.md clears a finding that there is") {
  const std::set<std::string> codes = CodesInCode();
  const std::string page = TextOf(kSource / "docs/rdma.md");
  std::set<std::string> named;
  const std::regex row(R"(\n\|[^\n]*\|([^\n|]*)\|(?=\n))");  // the last cell of a table's row
  for (auto at = std::sregex_iterator(page.begin(), page.end(), row); at != std::sregex_iterator();
       ++at) {
    named.merge(Matches((*at)[1], "`([A-Z0-9]+(?:_[A-Z0-9]+)+)`"));
  }
  CHECK(named.size() > 20);
  for (const std::string& code : named) {
    CAPTURE(code);
    CHECK(codes.contains(code));
  }
}

}  // namespace pages_test
