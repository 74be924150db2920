#include <memory>
#include <utility>

#include "client/cli/commands.h"
#include "client/cli/output/document.h"
#include "client/cli/output/table.h"

namespace onecopy::cli {
namespace {

Status ListExports(Session& session, const std::string& node) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const auto exports, client.ListExports(node));
  if (session.json()) {
    Print(session.out(), ListToJson(exports));
    return OkStatus();
  }
  Table table({{"NAME"}, {"FOLDER"}, {"RIGHTS"}});
  for (const ExportInfo& one : exports) {
    const std::string both = one.read && one.write ? ", " : "";
    table.Add({one.name, one.node + ":" + one.path,
               (one.read ? "read" : "") + both + (one.write ? "write" : "")});
  }
  table.Print(session.out());
  return OkStatus();
}

}  // namespace

void AddExport(CLI::App& program, Command& chosen) {
  CLI::App* group =
      program.add_subcommand("export", "Show the folders whose files you may copy from or to");
  group->require_subcommand(1);
  auto node = std::make_shared<std::string>();
  CLI::App* list = group->add_subcommand(
      "ls", "List the folders that a node exports to you, by [exports.NAME] of its configuration");
  list->add_option("NODE", *node, "Another node; without it, this one");
  list->footer(
      "Example: onecopy export ls west\n"
      "The files below such a folder are copied by their paths: onecopy cp west:/data/m.bin gpu0");
  list->callback(
      [node, &chosen] { chosen = [node](Session& s) { return ListExports(s, *node); }; });
}

}  // namespace onecopy::cli
