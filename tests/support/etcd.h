// A real etcd, one server, for a test.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

namespace onecopy::testing {

// Throws where it does not come to serve. Ends with the object. One thread at a time.
class EtcdServer {
 public:
  // PEM files; empty: plain text.
  struct Tls {
    std::string ca;
    std::string certificate;
    std::string key;
  };
  // Why there can be none here, or "".
  static std::string WhyNot();

  EtcdServer() : EtcdServer(Tls()) {}
  explicit EtcdServer(Tls tls);

  std::string endpoint() const { return endpoint_; }  // "http://127.0.0.1:2379"
  std::string address() const { return endpoint_.substr(endpoint_.find("//") + 2); }
  // etcdctl ARGUMENTS…, which must succeed: what it prints.
  std::string Control(std::vector<std::string> arguments) const;

  void Stop();     // SIGTERM; what it has is kept
  void Restart();  // at the same address

 private:
  void Start();

  const Tls tls_;
  TempFolder folder_;
  std::string endpoint_;
  std::string peer_endpoint_;
  std::unique_ptr<Process> process_;
};

}  // namespace onecopy::testing
