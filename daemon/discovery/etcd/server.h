// A server of etcd, and what it takes to use it.
#pragma once

#include <string>

#include "transport/os/sockets/host_port.h"

namespace onecopy::discovery {

// One server of etcd.
struct EtcdServer {
  bool tls = false;
  os::HostPort where;

  std::string ToString() const;  // "https://10.0.0.1:2379"
};

// Files, read with each connection; PEM, and the password in the first line of its file.
struct EtcdSecrets {
  std::string ca;
  std::string certificate;  // empty: none is shown
  std::string key;
  std::string user;  // empty: authentication is off
  std::string password_file;
};

}  // namespace onecopy::discovery
