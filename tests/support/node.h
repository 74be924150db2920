// A real daemon, and clients of it: what an operator would start and type.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "onecopy/client.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

namespace onecopy::testing {

using Json = nlohmann::json;

// How a command ended.
struct CommandResult {
  int exit_status = 0;
  std::string out;
  std::string err;
  Json json;  // of `out`; null where that is none

  // error.reason of the JSON document, "" where there is none.
  std::string reason() const;
  std::string message() const;
};

// Runs a program of ours to its end. `input` is its standard input.
CommandResult RunCommand(const std::string& program, const std::vector<std::string>& arguments,
                         const std::string& input = {}, const std::function<void()>& in_child = {});

struct NodeOptions {
  std::vector<std::string> peers = {};      // "NAME=HOST:PORT"; see Node::AsPeer
  std::vector<std::string> arguments = {};  // further flags of onecopyd
  std::string config = {};                  // text of a configuration file, without `version`
  std::string listen = "127.0.0.1:0";
  std::string lanes = "127.0.0.1:0";
  std::string metrics = "off";                // HOST:PORT: see Node::metrics
  std::string run_dir = {};                   // empty: a folder of its own
  std::vector<std::string> environment = {};  // "NAME=value", beside the test's own
  std::function<void()> in_child = {};
};

// Starts onecopyd and waits until it serves; throws, with its log, where it does not. Ends it as
// the destructor runs. One thread at a time, but for clients.
class Node {
 public:
  explicit Node(const std::string& name, NodeOptions options = {});
  ~Node();

  const std::string& name() const { return name_; }
  const std::string& address() const { return address_; }  // HOST:PORT for peers
  const std::string& run_dir() const { return run_dir_; }
  const std::string& metrics() const { return metrics_; }  // HOST:PORT; "none", or empty: off
  std::string AsPeer() const { return name_ + "=" + address_; }
  Process& process() { return *process_; }
  std::string Log() const;
  TempFolder& folder() { return folder_; }

  // onecopy --run-dir … --json ARGUMENTS…
  CommandResult Run(std::vector<std::string> arguments, const std::string& input = {}) const;
  // The same, which must succeed: its JSON document. Throws with what it said otherwise.
  Json Do(std::vector<std::string> arguments, const std::string& input = {}) const;
  Client Connect(bool use_ring = true) const;

  // SIGTERM, and the exit status; 1000 and a number when a signal ended it.
  int Stop();
  void Kill();  // SIGKILL
  // Another daemon of the same name, run directory and address as the one before, which has ended.
  void Restart();

  // Waits until this node sees that peer so: "CONNECTED", "DISCONNECTED", ….
  void WaitForPeer(const std::string& peer, const std::string& state = "CONNECTED") const;
  // Waits until a transfer is in that state here, and returns it.
  Json WaitForTransfer(const std::string& id, const std::string& state) const;

 private:
  void Start();

  const std::string name_;
  NodeOptions options_;
  TempFolder folder_;
  std::string run_dir_;
  std::string address_;
  std::string metrics_;
  std::unique_ptr<Process> process_;
};

// `bytes` bytes that differ from place to place and from seed to seed.
std::string Payload(size_t bytes, uint64_t seed = 1);

}  // namespace onecopy::testing
