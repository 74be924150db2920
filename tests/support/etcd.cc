#include "tests/support/etcd.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "transport/os/sockets/host_port.h"

namespace onecopy::testing {
namespace {

bool IsInstalled(const std::string& program) {
  for (const char* folder : {"/usr/bin/", "/usr/local/bin/"}) {
    if (::access((folder + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

// A port that was free a moment ago.
std::string FreeAddress() {
  auto listening = os::ListenTcp({"127.0.0.1", 0}, 1);
  if (!listening.ok()) throw std::runtime_error(listening.status().ToString());
  return os::LocalAddress(listening->get())->ToString();
}

}  // namespace

std::string EtcdServer::WhyNot() {
  for (const char* program : {"etcd", "etcdctl"}) {
    if (!IsInstalled(program)) {
      return std::string(program) + " is not installed (deploy/bootstrap --for tests)";
    }
  }
  return {};
}

EtcdServer::EtcdServer(Tls tls) : tls_(std::move(tls)) {
  endpoint_ = (tls_.ca.empty() ? "http://" : "https://") + FreeAddress();
  peer_endpoint_ = "http://" + FreeAddress();
  Start();
}

void EtcdServer::Start() {
  std::vector<std::string> arguments = {"--data-dir",
                                        folder_ / "data",
                                        "--listen-client-urls",
                                        endpoint_,
                                        "--advertise-client-urls",
                                        endpoint_,
                                        "--listen-peer-urls",
                                        peer_endpoint_,
                                        "--initial-advertise-peer-urls",
                                        peer_endpoint_,
                                        "--initial-cluster",
                                        "default=" + peer_endpoint_};
  if (!tls_.ca.empty()) {
    arguments.insert(arguments.end(), {"--cert-file", tls_.certificate, "--key-file", tls_.key,
                                       "--client-cert-auth", "--trusted-ca-file", tls_.ca});
  }
  // It is appended to the log of the one before.
  const size_t said =
      std::filesystem::exists(folder_ / "log") ? ReadFile(folder_ / "log").size() : 0;
  process_ = std::make_unique<Process>(ProcessOptions{
      .program = "/usr/bin/etcd", .arguments = arguments, .error_file = folder_ / "log"});
  WaitUntil("etcd serves", [&] {
    return ReadFile(folder_ / "log").find("ready to serve client requests", said) !=
           std::string::npos;
  });
}

std::string EtcdServer::Control(std::vector<std::string> arguments) const {
  std::vector<std::string> all = {"--endpoints", endpoint_,           "--dial-timeout",
                                  "10s",         "--command-timeout", "30s"};
  if (!tls_.ca.empty()) {
    all.insert(all.end(), {"--cacert", tls_.ca, "--cert", tls_.certificate, "--key", tls_.key});
  }
  all.insert(all.end(), arguments.begin(), arguments.end());
  Process command(ProcessOptions{.program = "/usr/bin/etcdctl",
                                 .arguments = all,
                                 .error_file = folder_ / "control",
                                 .environment = {"ETCDCTL_API=3"}});
  const std::string out = command.ReadAll();
  if (command.Wait() != 0) {
    throw std::runtime_error("etcdctl " + arguments.front() + ": " + out +
                             ReadFile(folder_ / "control"));
  }
  return out;
}

void EtcdServer::Stop() {
  process_->Signal(SIGTERM);
  process_->Wait();
}

void EtcdServer::Restart() { Start(); }

}  // namespace onecopy::testing
