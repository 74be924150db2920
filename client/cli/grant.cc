#include <memory>
#include <utility>

#include "client/cli/commands.h"
#include "client/cli/endpoint.h"
#include "client/cli/output/escape.h"
#include "client/cli/output/table.h"
#include "client/cli/output/time.h"
#include "client/cli/time_option.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::cli {
namespace {

struct GrantOptions {
  std::string buffer;
  std::string to;
  bool read = false;
  bool write = false;
  std::string lifetime;
  std::string node;
  std::vector<std::string> ids;
};

std::string Rights(const GrantInfo& grant) {
  return std::string(grant.read ? "read" : "") + (grant.read && grant.write ? ", " : "") +
         (grant.write ? "write" : "");
}

std::string Range(const GrantInfo& grant) {
  return "@" + std::to_string(grant.range.offset) + "+" + std::to_string(grant.range.bytes);
}

std::string Until(const GrantInfo& grant) {
  return grant.expire_time.has_value() ? FormatTime(*grant.expire_time) : "";
}

// A node that this one does not know may only be late; a name that was mistyped never comes.
void WarnOfStranger(Session& session, Client& client, const GrantInfo& grant) {
  const size_t at = grant.to.find('@');
  if (at == std::string::npos || session.quiet()) return;
  const std::string node = grant.to.substr(at + 1);
  if (client.GetNode(node).status().reason() != reasons::kPeerNotFound) return;
  session.err() << "onecopy: warning: node " << Printable(client.node()) << " does not know node "
                << Quote(node) << "; this grant has no effect until it does\n"
                << "  try: onecopy node ls\n";
}

Status Add(Session& session, const GrantOptions& options) {
  ONECOPY_ASSIGN_OR_RETURN(const ParsedEndpoint parsed, ParseEndpoint(options.buffer));
  if (parsed.kind != ParsedEndpoint::Kind::kBuffer) {
    return {Code::kInvalidArgument, reasons::kBadEndpoint,
            Quote(options.buffer) + " is not a buffer", "write NAME, or NAME@OFFSET+LENGTH"};
  }
  if (!options.read && !options.write) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "the grant allows neither reading nor writing", "add --read, --write, or both"};
  }
  CreateGrantRequest request;
  request.range = parsed.ToEndpoint();
  request.to = options.to;
  request.read = options.read;
  request.write = options.write;
  if (!options.lifetime.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(request.lifetime, ParseTimeOption("--for", options.lifetime));
  }
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const GrantInfo grant, client.CreateGrant(request));
  WarnOfStranger(session, client, grant);
  if (session.json()) {
    Print(session.out(), ToJson(grant));
  } else if (session.quiet()) {
    session.out() << Printable(grant.id.str()) << '\n';
  } else {
    const std::string until = Until(grant);
    session.out() << "grant " << Printable(grant.id.str()) << ": " << Printable(grant.to) << " may "
                  << Rights(grant) << ' ' << Printable(grant.buffer) << Range(grant)
                  << (until.empty() ? "" : " until " + until) << '\n';
  }
  return OkStatus();
}

Status ListGrants(Session& session, const std::string& typed, const std::string& node) {
  std::string buffer;
  if (!typed.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(const ParsedEndpoint parsed, ParseEndpoint(typed));
    if (parsed.kind != ParsedEndpoint::Kind::kBuffer || !parsed.node.empty() ||
        parsed.offset_bytes.has_value()) {
      return {Code::kInvalidArgument, reasons::kBadEndpoint,
              Quote(typed) + " is not the name of a buffer here",
              "write NAME, or leave it out for all buffers"};
    }
    buffer = parsed.name;
  }
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const auto grants, client.ListGrants(buffer, node));
  if (session.json()) {
    Print(session.out(), ListToJson(grants));
    return OkStatus();
  }
  Table table({{"ID"}, {"BUFFER"}, {"RANGE"}, {"FROM"}, {"TO"}, {"RIGHTS"}, {"UNTIL"}});
  for (const GrantInfo& grant : grants) {
    const bool elsewhere = !grant.node.empty() && grant.node != client.node();
    table.Add({grant.id.str(), (elsewhere ? grant.node + ":" : "") + grant.buffer, Range(grant),
               grant.owner, grant.to, Rights(grant), Until(grant)});
  }
  table.Print(session.out());
  return OkStatus();
}

Status Remove(Session& session, const std::vector<std::string>& ids) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  Json removed = Json::array();
  for (const std::string& id : ids) {
    ONECOPY_RETURN_IF_ERROR(client.DeleteGrant(GrantId(id)));
    removed.push_back(id);
    if (!session.json() && !session.quiet()) session.out() << "removed " << Printable(id) << '\n';
  }
  if (session.json()) Print(session.out(), Json{{"removed", std::move(removed)}});
  return OkStatus();
}

}  // namespace

void AddGrant(CLI::App& program, Command& chosen) {
  CLI::App* group = program.add_subcommand("grant", "Give other users access to your buffers");
  group->require_subcommand(1);
  auto options = std::make_shared<GrantOptions>();

  CLI::App* add =
      group->add_subcommand("add", "Allow another user to read or write a range of a buffer");
  add->add_option("BUFFER", options->buffer, "NAME, or a range of it: NAME@4096+64MiB")->required();
  add->add_option("--to", options->to,
                  "The user: a uid on this node, or on another one as in 1000@west")
      ->type_name("UID[@NODE]")
      ->required();
  add->add_flag("--read", options->read,
                "Allow reading: the range can be a source of their transfers");
  add->add_flag("--write", options->write,
                "Allow writing: the range can be a destination of their transfers");
  add->add_option("--for", options->lifetime, "End the grant after this time, as in --for 1h")
      ->type_name("TIME");
  add->footer("Example: onecopy grant add frame@0+1MiB --to 1000@west --read --for 1h");
  add->callback(
      [options, &chosen] { chosen = [options](Session& s) { return Add(s, *options); }; });

  CLI::App* list =
      group->add_subcommand("ls", "List the grants on your buffers and the grants given to you");
  list->add_option("NAME", options->buffer, "Only the grants on this buffer of yours");
  list->add_option("--node", options->node, "Ask another node, as in --node west")
      ->type_name("NODE");
  list->footer("Example: onecopy grant ls frame");
  list->callback([options, &chosen] {
    chosen = [options](Session& s) { return ListGrants(s, options->buffer, options->node); };
  });

  CLI::App* remove = group->add_subcommand("rm", "Revoke grants; transfers that rely on them end");
  remove->add_option("ID", options->ids, "Ids of grants, from `grant ls`")->required();
  remove->footer("Example: onecopy grant rm grant-000000000007");
  remove->callback(
      [options, &chosen] { chosen = [options](Session& s) { return Remove(s, options->ids); }; });
}

}  // namespace onecopy::cli
