// How connections between daemons are secured.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <optional>
#include <string>

#include "transport/core/result.h"

namespace onecopy::rpc {

// PEM files of [tls].
struct TlsFiles {
  std::string ca;           // whose certificates peers must have
  std::string certificate;  // this node's, with those between it and the CA
  std::string key;          // of that certificate
};

struct Credentials {
  bool tls = false;
  std::shared_ptr<grpc::ServerCredentials> server;
  std::shared_ptr<grpc::ChannelCredentials> channel;
};

Credentials PlainText();

// Both sides prove who they are. Reads the files; fails, naming the file, where one cannot be read
// or is not what it should be: no certificate, a key that is not the certificate's, a certificate
// that is not valid now, not signed by the CA, not for a server and client both, or not for `node`
// (a DNS name among its subject alternative names).
Result<Credentials> MutualTls(const TlsFiles& files, const std::string& node);

}  // namespace onecopy::rpc
