// An identity that changes while it is used.
#include "transport/tls/trust.h"

#include <filesystem>
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/certificates.h"

using namespace onecopy;
using namespace onecopy::tls;
using onecopy::testing::Authority;

namespace {

void Copy(const std::string& from, const std::string& to) {
  std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
}

}  // namespace

TEST_CASE("files that say something else count, once they are right") {
  Authority authority;
  const auto first = authority.Issue("first", "DNS:east");
  const auto second = authority.Issue("second", "DNS:east");
  const Files files = {authority.ca(), first.certificate, first.key, ""};
  const auto opened = Trust::Open(files, "east");
  REQUIRE_OK(opened);
  Trust& trust = **opened;
  const Trust::Current before = trust.Now();

  auto changed = trust.Reload();
  REQUIRE_OK(changed);
  CHECK_FALSE(*changed);
  CHECK(trust.Now().generation == before.generation);

  // Half of a change, as it is found between two files: nothing changes.
  Copy(second.certificate, first.certificate);
  CHECK_FALSE(trust.Reload().ok());
  CHECK(trust.Now().generation == before.generation);
  CHECK(trust.Now().identity == before.identity);

  Copy(second.key, first.key);
  changed = trust.Reload();
  REQUIRE_OK(changed);
  CHECK(*changed);
  CHECK(trust.Now().generation != before.generation);
  CHECK(trust.Now().identity->own().Serial() != before.identity->own().Serial());

  std::filesystem::remove(first.key);
  CHECK_FALSE(trust.Reload().ok());
  CHECK(trust.Now().identity->key() != before.identity->key());
}

TEST_CASE("files of other names count where they are right") {
  Authority authority;
  const auto first = authority.Issue("first", "DNS:east");
  const auto second = authority.Issue("second", "DNS:east");
  const auto wrong = authority.Issue("wrong", "DNS:west");
  const auto opened = Trust::Open({authority.ca(), first.certificate, first.key, ""}, "east");
  REQUIRE_OK(opened);
  Trust& trust = **opened;
  CHECK_FALSE(trust.Reload({authority.ca(), wrong.certificate, wrong.key, ""}).ok());
  auto changed = trust.Reload();
  REQUIRE_OK(changed);
  CHECK_FALSE(*changed);
  changed = trust.Reload({authority.ca(), second.certificate, second.key, ""});
  REQUIRE_OK(changed);
  CHECK(*changed);
}
