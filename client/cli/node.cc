#include <memory>

#include "client/cli/commands.h"
#include "client/cli/node_report.h"
#include "client/cli/output/escape.h"
#include "client/cli/output/table.h"
#include "client/cli/output/time.h"

namespace onecopy::cli {
namespace {

Status ListNodes(Session& session) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const auto nodes, client.ListNodes());
  if (session.json()) {
    Print(session.out(), ListToJson(nodes));
    return OkStatus();
  }
  Table table({{"NODE"}, {"STATE"}, {"ADDRESS"}, {"VERSION"}, {"SINCE"}, {"WHY"}});
  for (const NodeInfo& node : nodes) {
    std::string why = node.reason;
    if (!node.detail.empty()) why += (why.empty() ? "" : ": ") + node.detail;
    table.Add({node.name + (node.self ? " (here)" : ""), std::string(NodeStateName(node.state)),
               node.address, node.version, FormatTime(node.since), why});
  }
  table.Print(session.out());
  return OkStatus();
}

Status ShowNode(Session& session, const std::string& name) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const NodeInfo node, client.GetNode(name));
  if (session.json()) {
    Print(session.out(), ToJson(node));
  } else {
    PrintNode(session.out(), node);
  }
  return OkStatus();
}

Status Release(Session& session, const std::string& device) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_RETURN_IF_ERROR(client.ReleaseDevice(device));
  if (session.json()) {
    Print(session.out(), Json{{"released", device}});
  } else if (!session.quiet()) {
    session.out() << "released " << Printable(device) << '\n';
  }
  return OkStatus();
}

Status SetLevel(Session& session, const std::string& level) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const std::string previous, client.SetLogLevel(level));
  if (session.json()) {
    Print(session.out(), Json{{"level", level}, {"previous_level", previous}});
  } else if (!session.quiet()) {
    session.out() << "log level " << Printable(level) << ", was " << Printable(previous) << '\n';
  }
  return OkStatus();
}

Status Drain(Session& session, bool draining, bool wait) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t running, client.SetDraining(draining, wait));
  if (session.json()) {
    Print(session.out(), Json{{"draining", draining}, {"running", running}});
  } else if (!session.quiet()) {
    session.out() << (draining ? "takes no new transfers; " : "takes transfers again; ") << running
                  << (running == 1 ? " transfer runs" : " transfers run") << '\n';
  }
  return OkStatus();
}

}  // namespace

void AddNode(CLI::App& program, Command& chosen) {
  CLI::App* group = program.add_subcommand("node", "This node and its peers");
  group->require_subcommand(1);
  auto name = std::make_shared<std::string>();

  CLI::App* list = group->add_subcommand("ls", "List this node and its peers");
  list->footer("Example: onecopy node ls");
  list->callback([&chosen] { chosen = ListNodes; });

  CLI::App* show = group->add_subcommand(
      "show", "Show memories, links, stores and devices, and why one is not usable");
  show->add_option("NODE", *name, "Name of a peer (else this node)");
  show->footer("Example: onecopy node show west");
  show->callback([name, &chosen] { chosen = [name](Session& s) { return ShowNode(s, *name); }; });

  auto wait = std::make_shared<bool>(false);
  CLI::App* drain = group->add_subcommand(
      "drain", "Refuse new transfers from clients and peers, until undrain or the daemon ends");
  drain->add_flag("--wait", *wait, "Return when no transfer runs any more");
  drain->footer("Example: onecopy node drain --wait");
  drain->callback(
      [wait, &chosen] { chosen = [wait](Session& s) { return Drain(s, true, *wait); }; });

  CLI::App* undrain = group->add_subcommand("undrain", "Take transfers again");
  undrain->footer("Example: onecopy node undrain");
  undrain->callback([&chosen] { chosen = [](Session& s) { return Drain(s, false, false); }; });

  CLI::App* release = group->add_subcommand(
      "release", "Close the daemon's CUDA context on a GPU, to free the GPU memory of the context");
  release->add_option("DEVICE", *name, "cuda:0 (nvidia-smi's order), a PCI address or a UUID")
      ->required();
  release->footer("Example: onecopy node release cuda:0");
  release->callback([name, &chosen] { chosen = [name](Session& s) { return Release(s, *name); }; });

  CLI::App* level =
      group->add_subcommand("log-level", "Change the log level until the daemon ends");
  level->add_option("LEVEL", *name, "debug, info, warning or error")->required();
  level->footer("Example: onecopy node log-level debug");
  level->callback([name, &chosen] { chosen = [name](Session& s) { return SetLevel(s, *name); }; });
}

}  // namespace onecopy::cli
