// What `onecopy doctor` prints, and how it ends.
#include "client/cli/doctor_report.h"

#include <sstream>

#include "client/cli/program.h"
#include "client/doctor/diagnose.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/doctor/healthy.h"

using namespace onecopy;
using namespace onecopy::cli;

namespace {

std::string Text(const doctor::Facts& facts) {
  std::ostringstream out;
  PrintDiagnosis(out, Diagnose(facts));
  return out.str();
}

}  // namespace

TEST_CASE("a block for each finding, and the verdict last") {
  doctor::Facts facts = doctor::HealthyFactsWithoutDaemon();
  facts.gpus[0].persistence = false;
  const std::string text = Text(facts);
  CHECK(text.find("NOT_PROVEN  blocks\n  seen  no daemon answers: nothing listens\n  try   ") == 0);
  CHECK(text.find("\n\nPERSISTENCE_OFF  slows\n") != std::string::npos);
  CHECK(text.ends_with("not proven: 1 finding blocks it\n"));
  CHECK(Text(doctor::HealthyFacts()).find("the one-copy path works: verbs moved") == 0);
}

TEST_CASE("what devices say cannot move the cursor") {
  doctor::Facts facts = doctor::HealthyFactsWithoutDaemon();
  facts.daemon.why_not = "\x1b[2J";
  CHECK(Text(facts).find('\x1b') == std::string::npos);
}

TEST_CASE("one document with verdict, findings and facts") {
  const doctor::Facts facts = doctor::HealthyFacts();
  const Json document = DiagnosisToJson(Diagnose(facts), facts);
  CHECK(document["works"] == true);
  CHECK(document["findings"].empty());
  CHECK(document["facts"]["gpus"].size() == 2);
  CHECK(document["facts"]["nics"][1]["ports"][0]["gids"][1]["type"] == "RoCE v2");
  CHECK(document["facts"]["topology"]["distances"][0][2] == "PIX");
  CHECK(document["facts"]["machine"]["memlock_bytes"] == "unlimited");
  CHECK(document["facts"]["daemon"]["peers"][0]["name"] == "west");
  CHECK(document["facts"]["probes"][0]["bytes_per_second"] == 48'000'000'000);

  const doctor::Facts alone = doctor::HealthyFactsWithoutDaemon();
  const Json unproven = DiagnosisToJson(Diagnose(alone), alone);
  CHECK(unproven["works"] == false);
  CHECK(unproven["findings"][0]["code"] == "NOT_PROVEN");
  CHECK(unproven["findings"][0]["severity"] == "blocks");
}

TEST_CASE("without a daemon the command ends with 7 and says all on standard output") {
  testing::TempFolder folder;
  std::ostringstream out;
  std::ostringstream err;
  const int exit = RunProgram({"--run-dir", folder.path().string(), "--json", "doctor"}, out, err);
  CHECK(exit == 7);
  CHECK(err.str().empty());
  const Json document = Json::parse(out.str());
  CHECK(document["works"] == false);
  CHECK(document["facts"]["daemon"]["answered"] == false);
}

TEST_CASE("words that the command does not take are wrong usage") {
  std::ostringstream out;
  std::ostringstream err;
  CHECK(RunProgram({"doctor", "west"}, out, err) == 2);
  CHECK(out.str().empty());
}
