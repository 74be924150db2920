// `onecopy cert`, as people without an authority use it.
#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"
#include "tests/unit/client/program_fixture.h"

using onecopy::testing::Has;
using onecopy::testing::ModeOf;
using onecopy::testing::Onecopy;
using onecopy::testing::Run;
using onecopy::testing::TempFolder;

TEST_CASE("an authority, a node's certificate, and what is in them") {
  const TempFolder folder;
  const std::string ca = folder / "authority";
  const Run made = Onecopy({"cert", "init-ca", ca, "--name", "a lab"});
  INFO(made.err);
  REQUIRE(made.exit_status == 0);
  CHECK(Has(made.out, ca + "/ca.pem"));
  CHECK(Has(made.out, ca + "/ca.key"));
  CHECK(ModeOf(ca) == 0700);
  CHECK(ModeOf(ca + "/ca.key") == 0600);
  CHECK(ModeOf(ca + "/ca.pem") == 0644);

  const Run issued = Onecopy(
      {"cert", "issue", "east", "--ca", ca, "--out", folder / "out", "--days", "90", "--json"});
  REQUIRE(issued.exit_status == 0);
  const std::string certificate = issued.json().at("certificate");
  CHECK(certificate == (folder / "out/east.pem"));
  CHECK(issued.json().at("node") == "east");
  CHECK(ModeOf(folder / "out/east.key") == 0600);

  const auto shown = Onecopy({"cert", "show", certificate, ca + "/ca.pem", "--json"}).json();
  REQUIRE(shown.size() == 2);
  CHECK(shown[0].at("names") == onecopy::cli::Json({"DNS:east", "URI:onecopy://east"}));
  CHECK(shown[0].at("kind") == "certificate");
  CHECK(shown[0].at("issuer") == "CN=a lab");
  CHECK(shown[0].at("expired") == false);
  CHECK(shown[0].at("not_after") == issued.json().at("not_after"));
  CHECK(shown[1].at("kind") == "authority");
  const Run text = Onecopy({"cert", "show", certificate});
  CHECK(Has(text.out, "DNS:east, URI:onecopy://east"));
  CHECK(Has(text.out, "89 days left"));
}

TEST_CASE("what is there is replaced only where that was asked for") {
  const TempFolder folder;
  const std::string ca = folder / "ca";
  REQUIRE(Onecopy({"cert", "init-ca", ca}).exit_status == 0);
  const Run again = Onecopy({"cert", "init-ca", ca});
  CHECK(again.exit_status == 2);
  CHECK(Has(again.err, "ca.key"));
  const std::vector<std::string> issue = {"cert", "issue", "east", "--ca", ca, "--out", ca};
  REQUIRE(Onecopy(issue).exit_status == 0);
  const auto serial = [&] {
    return Onecopy({"cert", "show", ca + "/east.pem", "--json"}).json()[0].at("serial");
  };
  const auto before = serial();
  CHECK(Onecopy(issue).exit_status == 2);
  CHECK(serial() == before);
  std::vector<std::string> replace = issue;
  replace.emplace_back("--replace");
  REQUIRE(Onecopy(replace).exit_status == 0);
  CHECK(serial() != before);
  // Nothing half made is left.
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(ca)) ++files;
  CHECK(files == 4);
}

TEST_CASE("what cannot be issued or shown is refused, and says why") {
  const TempFolder folder;
  const std::string ca = folder / "ca";
  const Run without = Onecopy({"cert", "issue", "east", "--ca", ca});
  CHECK(without.exit_status == 3);
  CHECK(Has(without.err, "init-ca"));
  REQUIRE(Onecopy({"cert", "init-ca", ca}).exit_status == 0);
  CHECK(Onecopy({"cert", "issue", "no node", "--ca", ca}).exit_status == 2);
  CHECK(Onecopy({"cert", "issue", "east", "--ca", ca, "--days", "0"}).exit_status == 2);
  CHECK(Onecopy({"cert"}).exit_status == 2);
  CHECK(Onecopy({"cert", "show"}).exit_status == 2);
  CHECK(Onecopy({"cert", "show", folder / "none"}).exit_status == 3);
  CHECK(Onecopy({"cert", "show", ca + "/ca.key"}).exit_status == 2);
  REQUIRE(::chmod((ca + "/ca.key").c_str(), 0644) == 0);
  const Run open = Onecopy({"cert", "issue", "east", "--ca", ca, "--out", ca});
  CHECK(open.exit_status == 4);
  CHECK(Has(open.err, "0644"));
}

TEST_CASE("revoked certificates are listed, and the list grows") {
  const TempFolder folder;
  const std::string ca = folder / "ca";
  REQUIRE(Onecopy({"cert", "init-ca", ca}).exit_status == 0);
  std::vector<onecopy::cli::Json> serials;
  for (const char* node : {"east", "west"}) {
    REQUIRE(Onecopy({"cert", "issue", node, "--ca", ca, "--out", ca}).exit_status == 0);
    const std::string file = ca + "/" + node + ".pem";
    serials.push_back(Onecopy({"cert", "show", file, "--json"}).json()[0].at("serial"));
    REQUIRE(Onecopy({"cert", "revoke", file, "--ca", ca}).exit_status == 0);
  }
  const auto list = Onecopy({"cert", "show", ca + "/crl.pem", "--json"}).json();
  REQUIRE(list.size() == 1);
  CHECK(list[0].at("kind") == "revoked");
  REQUIRE(list[0].at("serials").size() == 2);
  for (const auto& serial : serials) {
    CHECK((list[0].at("serials")[0] == serial || list[0].at("serials")[1] == serial));
  }
  // Made anew: the same certificates, and again for a while.
  REQUIRE(Onecopy({"cert", "revoke", "--ca", ca, "--days", "60"}).exit_status == 0);
  CHECK(Has(Onecopy({"cert", "show", ca + "/crl.pem"}).out, "59 days left"));
  CHECK(Onecopy({"cert", "show", ca + "/crl.pem", "--json"}).json()[0].at("serials").size() == 2);
}
