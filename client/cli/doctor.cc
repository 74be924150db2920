#include "client/cli/commands.h"
#include "client/cli/doctor_report.h"
#include "client/doctor/diagnose.h"
#include "client/doctor/gather.h"
#include "onecopy/reasons.h"

namespace onecopy::cli {
namespace {

Status RunDoctor(Session& session) {
  doctor::PrepareEnvironment();
  doctor::GatherOptions options;
  options.run_dir = session.run_dir();
  const doctor::Facts facts = doctor::Gather(options);
  const doctor::Diagnosis diagnosis = doctor::Diagnose(facts);
  if (session.json()) {
    Print(session.out(), DiagnosisToJson(diagnosis, facts));
  } else {
    PrintDiagnosis(session.out(), diagnosis);
  }
  // All is said: what follows is an exit status without another word.
  if (!diagnosis.works) session.SetOutcome(Code::kFailedPrecondition);
  return OkStatus();
}

}  // namespace

void AddDoctor(CLI::App& program, Command& chosen) {
  CLI::App* command = program.add_subcommand(
      "doctor", "Find what keeps this node from the one-copy path, and how to fix it");
  command->footer(
      R"(Needs no daemon. If a daemon answers, doctor also asks it about its probes and peers.

Exits with 0 only if a probe moved GPU memory from a peer over RDMA hardware, else with 7.

Examples:
  onecopy doctor
  sudo onecopy doctor --json)");
  command->callback([&chosen] { chosen = RunDoctor; });
}

}  // namespace onecopy::cli
