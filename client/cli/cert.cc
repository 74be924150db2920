// `onecopy cert`: a small authority for those who have none.
#include <sys/stat.h>

#include <charconv>
#include <chrono>
#include <memory>

#include "client/cli/authority.h"
#include "client/cli/cert_show.h"
#include "client/cli/commands.h"
#include "client/cli/output/escape.h"
#include "client/cli/output/time.h"
#include "onecopy/reasons.h"
#include "transport/core/base/name.h"
#include "transport/tls/issue.h"
#include "transport/tls/key_file.h"

namespace onecopy::cli {
namespace {

struct CertOptions {
  std::string authority = ".";  // folder of ca.pem and ca.key
  std::string out = ".";
  std::string name = "onecopy authority";
  std::string node;
  std::string uid;
  std::vector<std::string> nodes;
  std::vector<std::string> files;
  int days = 0;
  bool replace = false;

  std::chrono::hours lifetime() const { return std::chrono::hours(24) * days; }
};

constexpr int kMaxDays = 36500;

void Say(Session& session, Json document, const std::string& text) {
  if (session.json()) {
    Print(session.out(), document);
  } else if (!session.quiet()) {
    session.out() << text;
  }
}

Status InitAuthority(Session& session, const CertOptions& options) {
  const std::string certificate = In(options.out, "ca.pem");
  const std::string key = In(options.out, "ca.key");
  ONECOPY_RETURN_IF_ERROR(MakeFolder(options.out, 0700));
  ONECOPY_ASSIGN_OR_RETURN(const tls::Issued issued,
                           tls::MakeAuthority(options.name, options.lifetime()));
  ONECOPY_RETURN_IF_ERROR(WriteIssued(issued, certificate, key, false));
  const auto until = tls::ParseCertificates(issued.certificate)->front().NotAfter();
  Say(session, {{"ca", certificate}, {"key", key}, {"not_after", FormatTime(until)}},
      Printable(certificate) + "  CA certificate, for [tls] ca of every node; valid until " +
          tls::TimeText(until) + "\n" + Printable(key) +
          "  its key: anyone with this key can create nodes; keep it off every node\n");
  return OkStatus();
}

Status CheckNode(const std::string& node) {
  if (IsName(node)) return OkStatus();
  return {Code::kInvalidArgument, reasons::kBadName, Quote(node) + " is not a node's name",
          "a node's name is of the form " + std::string(kNameSyntax)};
}

Status Issue(Session& session, const CertOptions& options) {
  ONECOPY_RETURN_IF_ERROR(CheckNode(options.node));
  ONECOPY_ASSIGN_OR_RETURN(const tls::Issued authority, ReadAuthority(options.authority));
  ONECOPY_ASSIGN_OR_RETURN(const tls::Issued issued,
                           tls::IssueForNode(authority, options.node, options.lifetime()));
  const std::string certificate = In(options.out, options.node + ".pem");
  const std::string key = In(options.out, options.node + ".key");
  ONECOPY_RETURN_IF_ERROR(MakeFolder(options.out, 0700));
  ONECOPY_RETURN_IF_ERROR(WriteIssued(issued, certificate, key, options.replace));
  const auto until = tls::ParseCertificates(issued.certificate)->front().NotAfter();
  Say(session,
      {{"node", options.node},
       {"certificate", certificate},
       {"key", key},
       {"not_after", FormatTime(until)}},
      Printable(certificate) + "  certificate of node " + options.node +
          ", for [tls] certificate; valid until " + tls::TimeText(until) + "\n" + Printable(key) +
          "  its key, for [tls] key: only the user that runs onecopyd there may read it\n");
  return OkStatus();
}

Result<uint32_t> ParseUser(const std::string& text) {
  uint32_t uid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), uid);
  if (error == std::errc() && end == text.data() + text.size() && uid != UINT32_MAX) return uid;
  return Status(Code::kInvalidArgument, reasons::kBadArgument, Quote(text) + " is not a uid",
                "write a number, such as 1000");
}

Status IssueUser(Session& session, const CertOptions& options) {
  ONECOPY_ASSIGN_OR_RETURN(const uint32_t uid, ParseUser(options.uid));
  for (const std::string& node : options.nodes) ONECOPY_RETURN_IF_ERROR(CheckNode(node));
  ONECOPY_ASSIGN_OR_RETURN(const tls::Issued authority, ReadAuthority(options.authority));
  ONECOPY_ASSIGN_OR_RETURN(const tls::Issued issued,
                           tls::IssueForUser(authority, uid, options.nodes, options.lifetime()));
  const std::string certificate = In(options.out, "user-" + std::to_string(uid) + ".pem");
  const std::string key = In(options.out, "user-" + std::to_string(uid) + ".key");
  ONECOPY_RETURN_IF_ERROR(MakeFolder(options.out, 0700));
  ONECOPY_RETURN_IF_ERROR(WriteIssued(issued, certificate, key, options.replace));
  const auto until = tls::ParseCertificates(issued.certificate)->front().NotAfter();
  std::string owners;
  for (const std::string& node : options.nodes) {
    owners += (owners.empty() ? "" : ", ") + std::to_string(uid) + "+cert@" + node;
  }
  Say(session,
      {{"uid", uid},
       {"nodes", options.nodes},
       {"certificate", certificate},
       {"key", key},
       {"not_after", FormatTime(until)}},
      Printable(certificate) + "  certificate for a client of api_listen, as " + owners +
          "; valid until " + tls::TimeText(until) + "\n" + Printable(key) +
          "  its key: anyone with this key can act as that user there\n");
  return OkStatus();
}

Status RevokeFiles(Session& session, const CertOptions& options) {
  ONECOPY_ASSIGN_OR_RETURN(const tls::Issued authority, ReadAuthority(options.authority));
  const std::string file = In(options.authority, "crl.pem");
  std::string list;
  if (struct stat there{}; ::stat(file.c_str(), &there) == 0) {
    ONECOPY_ASSIGN_OR_RETURN(list, tls::ReadPem(file));
  }
  tls::Chain revoked;
  for (const std::string& name : options.files) {
    ONECOPY_ASSIGN_OR_RETURN(const std::string text, tls::ReadPem(name));
    ONECOPY_ASSIGN_OR_RETURN(const tls::Chain chain, tls::ParseCertificates(text));
    revoked.push_back(chain.front());
  }
  ONECOPY_ASSIGN_OR_RETURN(const std::string made,
                           tls::Revoke(authority, list, revoked, options.lifetime()));
  ONECOPY_RETURN_IF_ERROR(tls::WritePem(file, made, false, true));
  Say(session, {{"crl", file}},
      Printable(file) +
          "  list of revoked certificates, for [tls] crl of every node; renew it within  " +
          std::to_string(options.days) + " days\n");
  return OkStatus();
}

void AddInitAuthority(CLI::App& group, const std::shared_ptr<CertOptions>& options,
                      Command& chosen) {
  CLI::App* init =
      group.add_subcommand("init-ca", "Make a certificate authority (CA): ca.pem and ca.key");
  init->add_option("DIR", options->out, "Folder for both files; it is created if missing");
  init->add_option("--name", options->name, "Name of the authority, shown to people");
  init->add_option("--days", options->days, "Days for which it is valid; default 3650")
      ->check(CLI::Range(1, kMaxDays));
  init->footer("Example: onecopy cert init-ca authority");
  init->callback([options, &chosen] {
    if (options->days == 0) options->days = 3650;
    chosen = [options](Session& s) { return InitAuthority(s, *options); };
  });
}

void AddIssue(CLI::App& group, const std::shared_ptr<CertOptions>& options, Command& chosen) {
  CLI::App* issue =
      group.add_subcommand("issue", "Issue a node's certificate: NODE.pem and NODE.key");
  issue->add_option("NODE", options->node, "The node's name, as in its configuration")->required();
  issue
      ->add_option("--ca", options->authority,
                   "Folder of ca.pem and ca.key; default: the current folder")
      ->type_name("DIR");
  issue->add_option("--out", options->out, "Folder for both files; default: the current folder")
      ->type_name("DIR");
  issue
      ->add_option("--days", options->days,
                   "Days for which it is valid, at most as long as its CA; default 365")
      ->check(CLI::Range(1, kMaxDays));
  issue->add_flag("--replace", options->replace,
                  "Replace existing files; a running daemon then reads them again");
  issue->footer("Example: onecopy cert issue east --ca authority");
  issue->callback([options, &chosen] {
    if (options->days == 0) options->days = 365;
    chosen = [options](Session& s) { return Issue(s, *options); };
  });
}

void AddIssueUser(CLI::App& group, const std::shared_ptr<CertOptions>& options, Command& chosen) {
  CLI::App* issue = group.add_subcommand(
      "issue-user", "Issue a user's certificate for api_listen: user-UID.pem and user-UID.key");
  issue->add_option("UID", options->uid, "Number under which the node knows the user")->required();
  issue->add_option("--node", options->nodes, "Name of a node that accepts it; may be repeated")
      ->type_name("NODE")
      ->required();
  issue
      ->add_option("--ca", options->authority,
                   "Folder of ca.pem and ca.key; default: the current folder")
      ->type_name("DIR");
  issue->add_option("--out", options->out, "Folder for both files; default: the current folder")
      ->type_name("DIR");
  issue
      ->add_option("--days", options->days,
                   "Days for which it is valid, at most as long as its CA; default 90")
      ->check(CLI::Range(1, kMaxDays));
  issue->add_flag("--replace", options->replace, "Replace existing files");
  issue->footer(
      "On west, this user is the owner 1000+cert@west: not uid 1000 there, and never an "
      "administrator.\nExample: onecopy cert issue-user 1000 --node west --ca authority");
  issue->callback([options, &chosen] {
    if (options->days == 0) options->days = 90;
    chosen = [options](Session& s) { return IssueUser(s, *options); };
  });
}

void AddRevoke(CLI::App& group, const std::shared_ptr<CertOptions>& options, Command& chosen) {
  CLI::App* revoke = group.add_subcommand(
      "revoke", "Add certificates to the authority's list of revoked ones: crl.pem");
  revoke->add_option("FILE", options->files,
                     "Certificates to revoke; without any, only renew the list");
  revoke
      ->add_option("--ca", options->authority,
                   "Folder of ca.pem and ca.key; default: the current folder")
      ->type_name("DIR");
  revoke->add_option("--days", options->days, "Days for which the list is valid; default 30")
      ->check(CLI::Range(1, kMaxDays));
  revoke->footer("Example: onecopy cert revoke west.pem --ca authority");
  revoke->callback([options, &chosen] {
    if (options->days == 0) options->days = 30;
    chosen = [options](Session& s) { return RevokeFiles(s, *options); };
  });
}

}  // namespace

void AddCert(CLI::App& program, Command& chosen) {
  CLI::App* group = program.add_subcommand(
      "cert", "Make certificates for [tls] if you have no certificate authority; needs no daemon");
  group->require_subcommand(1);
  auto options = std::make_shared<CertOptions>();
  AddInitAuthority(*group, options, chosen);
  AddIssue(*group, options, chosen);
  AddIssueUser(*group, options, chosen);
  AddRevoke(*group, options, chosen);
  CLI::App* show = group->add_subcommand("show", "Show what certificate files contain");
  show->add_option("FILE", options->files, "Files of certificates or revocation lists")->required();
  show->footer("Example: onecopy cert show east.pem");
  show->callback([options, &chosen] {
    chosen = [options](Session& s) { return ShowCertificates(s, options->files); };
  });
}

}  // namespace onecopy::cli
