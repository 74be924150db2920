#include "tests/support/node.h"

#include <signal.h>

#include <span>
#include <stdexcept>
#include <utility>

#include "tests/support/pattern.h"

namespace onecopy::testing {
namespace {

const Json& ErrorOf(const Json& document) {
  static const Json kNone = Json::object();
  if (!document.is_object() || !document.contains("error") || document["error"].is_null()) {
    return kNone;
  }
  return document["error"];
}

std::string ValueAfter(const std::string& line, const std::string& key) {
  const size_t at = line.find(" " + key + "=");
  if (at == std::string::npos) return {};
  const size_t begin = at + key.size() + 2;
  return line.substr(begin, line.find_first_of(" \n", begin) - begin);
}

}  // namespace

std::string CommandResult::reason() const { return ErrorOf(json).value("reason", ""); }
std::string CommandResult::message() const { return ErrorOf(json).value("message", ""); }

CommandResult RunCommand(const std::string& program, const std::vector<std::string>& arguments,
                         const std::string& input, const std::function<void()>& in_child) {
  const TempFolder folder;
  WriteFile(folder / "in", input);
  Process process({.program = program,
                   .arguments = arguments,
                   .input_file = folder / "in",
                   .error_file = folder / "err",
                   .in_child = in_child});
  CommandResult result;
  result.out = process.ReadAll();
  result.exit_status = process.Wait();
  result.err = ReadFile(folder / "err");
  result.json = Json::parse(result.out, nullptr, false);
  if (result.json.is_discarded()) result.json = nullptr;
  return result;
}

Node::Node(const std::string& name, NodeOptions options)
    : name_(name),
      options_(std::move(options)),
      run_dir_(options_.run_dir.empty() ? folder_ / "run" : options_.run_dir),
      address_(options_.listen) {
  Start();
}

Node::~Node() = default;

void Node::Start() {
  std::vector<std::string> arguments = {"--name",  name_,          "--listen",  address_,
                                        "--lanes", options_.lanes, "--run-dir", run_dir_};
  // A test may name it in its own configuration.
  if (options_.config.find("metrics_listen") == std::string::npos) {
    arguments.insert(arguments.end(), {"--metrics-listen", options_.metrics});
  }
  for (const std::string& peer : options_.peers)
    arguments.insert(arguments.end(), {"--peer", peer});
  if (!options_.config.empty()) {
    WriteFile(folder_ / "config.toml", "version = 1\n" + options_.config);
    arguments.insert(arguments.end(), {"--config", folder_ / "config.toml"});
  }
  arguments.insert(arguments.end(), options_.arguments.begin(), options_.arguments.end());
  process_ = std::make_unique<Process>(ProcessOptions{.program = "onecopyd",
                                                      .arguments = std::move(arguments),
                                                      .error_file = folder_ / "log",
                                                      .environment = options_.environment,
                                                      .in_child = options_.in_child});
  const std::string ready = process_->ReadLine();
  if (ready.rfind("ready name=" + name_ + " ", 0) != 0) {
    throw std::runtime_error("onecopyd does not serve: " + ready + Log());
  }
  address_ = ValueAfter(ready, "listen");
  metrics_ = ValueAfter(ready, "metrics");
}

std::string Node::Log() const { return ReadFile(folder_ / "log"); }

CommandResult Node::Run(std::vector<std::string> arguments, const std::string& input) const {
  arguments.insert(arguments.begin(), {"--run-dir", run_dir_, "--json"});
  return RunCommand("onecopy", arguments, input);
}

Json Node::Do(std::vector<std::string> arguments, const std::string& input) const {
  std::string words;
  for (const std::string& argument : arguments) words += " " + argument;
  const CommandResult result = Run(std::move(arguments), input);
  if (result.exit_status != 0) {
    throw std::runtime_error("onecopy" + words + " ended with " +
                             std::to_string(result.exit_status) + ": " + result.out + result.err);
  }
  return result.json;
}

Client Node::Connect(bool use_ring) const {
  Result<Client> client =
      Client::Connect({.run_dir = run_dir_, .program = "test", .use_ring = use_ring});
  if (!client.ok()) throw std::runtime_error(client.status().ToString());
  return *std::move(client);
}

int Node::Stop() {
  process_->Signal(SIGTERM);
  return process_->Wait();
}

void Node::Kill() {
  process_->Signal(SIGKILL);
  process_->Wait();
}

void Node::Restart() { Start(); }

void Node::WaitForPeer(const std::string& peer, const std::string& state) const {
  Client client = Connect();
  WaitUntil(name_ + " sees " + peer + " as " + state, [&] {
    Result<NodeInfo> info = client.GetNode(peer);
    return info.ok() && NodeStateName(info->state) == state;
  });
}

Json Node::WaitForTransfer(const std::string& id, const std::string& state) const {
  Json transfer;
  WaitUntil("transfer " + id + " is " + state + " on " + name_, [&] {
    transfer = Do({"transfer", "show", id});
    return transfer.at("state") == state;
  });
  return transfer;
}

std::string Payload(size_t bytes, uint64_t seed) {
  std::string payload(bytes, '\0');
  Fill(std::as_writable_bytes(std::span(payload)).data(), bytes, seed);
  return payload;
}

}  // namespace onecopy::testing
