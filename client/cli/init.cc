// `onecopy init`: the first configuration of a node, and of its peers.
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>

#include "client/cli/authority.h"
#include "client/cli/commands.h"
#include "client/cli/first_config.h"
#include "client/cli/output/escape.h"
#include "client/cli/output/time.h"
#include "client/cli/peer_check.h"
#include "onecopy/reasons.h"
#include "transport/core/base/name.h"
#include "transport/os/base/error.h"
#include "transport/os/sockets/own_addresses.h"
#include "transport/os/sockets/resolve.h"
#include "transport/tls/key_file.h"

namespace onecopy::cli {
namespace {

constexpr uint16_t kPort = 7701;
constexpr std::chrono::seconds kCheckFor{3};
constexpr auto kCertificateFor = std::chrono::hours(24) * 365;
constexpr auto kAuthorityFor = std::chrono::hours(24) * 3650;

struct InitOptions {
  std::string name;
  std::string listen;
  std::vector<std::string> peers;
  std::string authority;
  std::string uid_domain;
  std::string out = "/etc/onecopy";
  bool insecure = false;
  bool replace = false;
  bool no_check = false;
  bool ask = false;
};

// What was written and found, for people and programs.
struct Report {
  std::vector<std::string> files;
  std::vector<std::pair<std::string, std::string>> folders;  // by the peer they are for
  std::vector<std::pair<NodeAddress, Status>> peers;
};

std::string HostName() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return {};
  const std::string text = name;
  const std::string first = text.substr(0, text.find('.'));
  return IsName(first) ? first : "";
}

// The answer, or `fallback` for an empty line.
std::string Answer(Session& session, const std::string& question, const std::string& fallback) {
  session.err() << question << (fallback.empty() ? "" : " [" + Printable(fallback) + "]") << ": "
                << std::flush;
  std::string line;
  std::getline(std::cin, line);
  return line.empty() ? fallback : line;
}

// Asks for what was not typed.
void Ask(Session& session, InitOptions& options) {
  if (options.name.empty()) {
    options.name = Answer(session, "Name of this node", HostName());
  }
  while (options.peers.empty() || !options.peers.back().empty()) {
    options.peers.push_back(
        Answer(session, "A peer, as NAME=HOST:PORT; an empty line ends the list", ""));
  }
  options.peers.pop_back();
  if (options.authority.empty() && !options.peers.empty() && !options.insecure) {
    options.authority =
        Answer(session, "Folder of the certificate authority, made if it is missing", "authority");
  }
}

// The first address of a host.
Result<os::HostPort> Resolved(const os::HostPort& where) {
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<os::HostPort> found, os::Resolve(where));
  return found.front();
}

// Where peers reach this node: the address from which it reaches the first of them, or the only
// one that this machine has.
Result<os::HostPort> FindListen(const std::vector<NodeAddress>& peers) {
  if (!peers.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(const os::HostPort first, Resolved(peers.front().address));
    ONECOPY_ASSIGN_OR_RETURN(std::string own, os::SourceTowards(first));
    return os::HostPort{std::move(own), kPort};
  }
  const std::vector<os::OwnAddress> found = os::OwnAddresses();
  if (found.empty()) return os::HostPort{"127.0.0.1", kPort};
  if (found.size() == 1) return os::HostPort{found.front().address, kPort};
  std::string all;
  for (const os::OwnAddress& one : found) {
    all += (all.empty() ? "" : ", ") + one.address + " (" + one.device + ")";
  }
  return Status(Code::kInvalidArgument, reasons::kBadArgument,
                "this machine has several addresses: " + all,
                "choose the one that peers reach: --listen " +
                    os::HostPort{found.front().address, kPort}.ToString());
}

bool IsThere(const std::string& file) {
  struct stat found {};
  return ::stat(file.c_str(), &found) == 0;
}

Result<FirstConfig> PlanConfig(const InitOptions& options) {
  FirstConfig config;
  config.name = options.name.empty() ? HostName() : options.name;
  config.uid_domain = options.uid_domain;
  for (const std::string& typed : options.peers) {
    ONECOPY_ASSIGN_OR_RETURN(NodeAddress peer, ParseNodeAddress(typed));
    config.peers.push_back(std::move(peer));
  }
  if (options.listen.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(config.listen, FindListen(config.peers));
  } else {
    ONECOPY_ASSIGN_OR_RETURN(config.listen, os::ParseHostPort(options.listen));
  }
  ONECOPY_RETURN_IF_ERROR(CheckNodes(config));
  const std::string folder = std::filesystem::absolute(options.out).lexically_normal().string();
  if (!options.authority.empty() || IsThere(In(folder, config.name + ".pem"))) {
    config.tls_folder = folder;
  }
  if (!config.tls_folder.empty() || os::IsLoopback(config.listen.host)) return config;
  if (!options.insecure) {
    return Status(Code::kInvalidArgument, reasons::kBadConfig,
                  "a node that listens on " + config.listen.ToString() + " needs certificates",
                  "pass --ca DIR, which makes an authority there if it has none, or put ca.pem, " +
                      config.name + ".pem and " + config.name + ".key into " + folder);
  }
  config.insecure = true;
  return config;
}

Result<tls::Issued> Authority(const std::string& folder, Report& report) {
  if (IsThere(In(folder, "ca.pem"))) return ReadAuthority(folder);
  ONECOPY_RETURN_IF_ERROR(MakeFolder(folder, 0700));
  ONECOPY_ASSIGN_OR_RETURN(tls::Issued made,
                           tls::MakeAuthority("onecopy authority", kAuthorityFor));
  ONECOPY_RETURN_IF_ERROR(WriteIssued(made, In(folder, "ca.pem"), In(folder, "ca.key"), false));
  report.files.push_back(In(folder, "ca.key"));
  return made;
}

// The service runs as a user of its own, whose group may read the key.
Status LetServiceRead(const std::string& key) {
  if (::geteuid() != 0) return OkStatus();
  const group* const service = ::getgrnam("onecopy");
  if (service == nullptr) return OkStatus();
  if (::chown(key.c_str(), 0, service->gr_gid) != 0 || ::chmod(key.c_str(), 0640) != 0) {
    return os::ErrnoStatus(errno, "giving the group onecopy the right to read " + key);
  }
  return OkStatus();
}

// Certificate, key and configuration of one node.
Status WriteNode(const FirstConfig& config, const std::string& folder,
                 const std::optional<tls::Issued>& authority, bool replace, Report& report) {
  ONECOPY_RETURN_IF_ERROR(MakeFolder(folder, 0755));
  if (authority) {
    const std::string certificate = In(folder, config.name + ".pem");
    const std::string key = In(folder, config.name + ".key");
    ONECOPY_ASSIGN_OR_RETURN(const tls::Issued issued,
                             tls::IssueForNode(*authority, config.name, kCertificateFor));
    ONECOPY_RETURN_IF_ERROR(WriteIssued(issued, certificate, key, replace));
    const std::string ca = In(folder, "ca.pem");
    ONECOPY_RETURN_IF_ERROR(tls::WritePem(ca, authority->certificate, false, true));
    for (const std::string& file : {ca, certificate, key}) report.files.push_back(file);
  }
  const std::string file = In(folder, "config.toml");
  if (replace && IsThere(file)) {
    std::error_code error;
    std::filesystem::copy_file(file, file + ".old",
                               std::filesystem::copy_options::overwrite_existing, error);
    if (error) return os::ErrnoStatus(error.value(), "keeping " + file + " as " + file + ".old");
    report.files.push_back(file + ".old");
  }
  ONECOPY_RETURN_IF_ERROR(tls::WritePem(file, config.ToToml(), false, replace));
  report.files.push_back(file);
  return OkStatus();
}

// Before anything is written, so that nothing is written by halves.
Status CheckFree(const FirstConfig& config, const InitOptions& options) {
  if (options.replace) return OkStatus();
  std::vector<std::string> files{In(options.out, "config.toml")};
  if (!options.authority.empty()) {
    for (const std::string& file : {std::string("ca"), config.name}) {
      files.push_back(In(options.out, file + ".pem"));
    }
    files.push_back(In(options.out, config.name + ".key"));
    for (const NodeAddress& peer : config.peers) {
      const std::string folder = In(options.authority, "for-" + peer.node);
      for (const std::string& file : {std::string("config.toml"), std::string("ca.pem"),
                                      peer.node + ".pem", peer.node + ".key"}) {
        files.push_back(In(folder, file));
      }
    }
  }
  for (const std::string& file : files) {
    if (!IsThere(file)) continue;
    return {Code::kAlreadyExists, reasons::kNameTaken, Printable(file) + " is there already",
            "pass --replace; the configuration is kept as config.toml.old"};
  }
  return OkStatus();
}

Status CheckPeers(const FirstConfig& config, Report& report) {
  std::shared_ptr<const tls::Identity> identity;
  if (!config.tls_folder.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(
        identity,
        tls::Identity::Load({config.tls_folder + "/ca.pem", config.certificate(), config.key(), {}},
                            config.name));
  }
  // A peer may go while it is spoken to.
  std::signal(SIGPIPE, SIG_IGN);
  for (const NodeAddress& peer : config.peers) {
    const Result<os::HostPort> where = Resolved(peer.address);
    Status found = where.ok() ? CheckPeer(*where, peer.node, identity, kCheckFor) : where.status();
    report.peers.emplace_back(peer, std::move(found));
  }
  return OkStatus();
}

void PrintInit(Session& session, const FirstConfig& config, const InitOptions& options,
               const Report& report) {
  if (session.json()) {
    Json peers = Json::array();
    for (const auto& [peer, found] : report.peers) {
      peers.push_back({{"name", peer.node},
                       {"address", peer.address.ToString()},
                       {"answers", found.ok()},
                       {"reason", found.reason()},
                       {"message", found.message()}});
    }
    Json folders = Json::object();
    for (const auto& [peer, folder] : report.folders) folders[peer] = folder;
    Print(session.out(), Json{{"node", config.name},
                              {"listen", config.listen.ToString()},
                              {"files", report.files},
                              {"folders", folders},
                              {"peers", peers}});
    return;
  }
  if (session.quiet()) return;
  std::ostream& out = session.out();
  out << "node " << config.name << " listens on " << config.listen.ToString() << "\n";
  for (const std::string& file : report.files) out << "wrote " << Printable(file) << "\n";
  for (const auto& [peer, folder] : report.folders) {
    out << "node " << peer << ": copy the files of " << Printable(folder) << " to "
        << Printable(options.out) << " there\n";
  }
  for (const auto& [peer, found] : report.peers) {
    out << "peer " << peer.node << ": ";
    if (found.ok()) {
      out << "answers at " << peer.address.ToString() << "\n";
    } else {
      out << Printable(found.message()) << "\n";
      if (!found.remedy().empty()) out << "  try: " << Printable(found.remedy()) << "\n";
    }
  }
  out << "next: sudo systemctl restart onecopyd, and then: onecopy node ls\n";
}

Status Init(Session& session, InitOptions options) {
  const bool at_terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
  const bool little = options.peers.empty() && options.listen.empty();
  if (options.ask || (little && at_terminal && !session.json() && !session.quiet())) {
    Ask(session, options);
  }
  ONECOPY_ASSIGN_OR_RETURN(const FirstConfig config, PlanConfig(options));
  ONECOPY_RETURN_IF_ERROR(CheckFree(config, options));
  Report report;
  std::optional<tls::Issued> authority;
  if (!options.authority.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(authority, Authority(options.authority, report));
    for (const NodeAddress& peer : config.peers) {
      const std::string folder = In(options.authority, "for-" + peer.node);
      ONECOPY_RETURN_IF_ERROR(
          WriteNode(config.OfPeer(peer), folder, authority, options.replace, report));
      report.folders.emplace_back(peer.node, folder);
    }
  }
  ONECOPY_RETURN_IF_ERROR(WriteNode(config, options.out, authority, options.replace, report));
  if (authority) {  // a peer's key is not for this machine's service
    ONECOPY_RETURN_IF_ERROR(LetServiceRead(In(options.out, config.name + ".key")));
  }
  if (!options.no_check) ONECOPY_RETURN_IF_ERROR(CheckPeers(config, report));
  PrintInit(session, config, options, report);
  for (const auto& [peer, found] : report.peers) {
    // One that is not up yet comes by itself; one that is another node never does.
    if (found.code() == Code::kUnauthenticated) session.SetOutcome(found.code());
  }
  return OkStatus();
}

}  // namespace

void AddInit(CLI::App& program, Command& chosen) {
  CLI::App* command = program.add_subcommand(
      "init", "Write a node's first configuration, with certificates, and check its peers");
  const auto options = std::make_shared<InitOptions>();
  command->add_option("--name", options->name, "Name of this node; default: the host's name")
      ->type_name("NODE");
  command
      ->add_option("--listen", options->listen,
                   "Where peers reach this node; default: the address from which it reaches the "
                   "first peer, port 7701")
      ->type_name("HOST:PORT");
  command->add_option("--peer", options->peers, "A peer and its address; may be repeated")
      ->type_name("NODE=HOST:PORT")
      ->allow_extra_args(false);
  command
      ->add_option("--ca", options->authority,
                   "Folder of a certificate authority, made if it is missing: issues this node's "
                   "certificate, and writes DIR/for-PEER with all that each peer needs")
      ->type_name("DIR");
  command
      ->add_option("--uid-domain", options->uid_domain,
                   "A uid is the same user on this node and its peers; any text, the same on all")
      ->type_name("TEXT");
  command->add_flag("--insecure", options->insecure,
                    "No certificates: any program that reaches the port can claim to be a peer");
  command->add_option("--out", options->out, "Folder of config.toml; default: /etc/onecopy")
      ->type_name("DIR");
  command->add_flag("--replace", options->replace,
                    "Replace existing files; the configuration is kept as config.toml.old");
  command->add_flag("--no-check", options->no_check, "Do not connect to the peers");
  command->add_flag("--ask", options->ask,
                    "Ask for what is missing; the default at a terminal without options");
  command->footer(
      R"(Needs no daemon. A peer that does not answer yet is only reported.

Examples:
  onecopy init --ca authority --peer west=10.0.0.2:7701
  scp authority/for-west/* root@10.0.0.2:/etc/onecopy/)");
  command->callback(
      [options, &chosen] { chosen = [options](Session& s) { return Init(s, *options); }; });
}

}  // namespace onecopy::cli
