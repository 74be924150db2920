#include <memory>

#include "client/cli/commands.h"
#include "client/cli/node_report.h"

namespace onecopy::cli {
namespace {

Status Probe(Session& session, const std::string& name) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<ProbeInfo> probes, client.ProbeNode(name));
  if (session.json()) {
    Print(session.out(), ListToJson(probes));
  } else if (probes.empty()) {
    session.out() << "nothing to probe: this node has no RDMA device and no connected peer\n";
  } else {
    PrintProbes(session.out(), probes, "");
  }
  return OkStatus();
}

}  // namespace

void AddProbe(CLI::App& program, Command& chosen) {
  auto name = std::make_shared<std::string>();
  CLI::App* probe = program.add_subcommand(
      "probe", "Measure reads from a peer, and through this node's own devices");
  probe->add_option("NODE", *name, "Name of a node (else this one and every connected peer)");
  probe->footer("Example: onecopy probe west");
  probe->callback([name, &chosen] { chosen = [name](Session& s) { return Probe(s, *name); }; });
}

}  // namespace onecopy::cli
