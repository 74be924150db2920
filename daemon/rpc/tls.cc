#include "daemon/rpc/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "transport/core/reasons.h"
#include "transport/os/error.h"

namespace onecopy::rpc {
namespace {

template <auto free>
struct Freer {
  void operator()(auto* object) const { free(object); }
};
using Bio = std::unique_ptr<BIO, Freer<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;

constexpr size_t kMostFileBytes = 1 << 20;

Status Bad(const std::string& path, const std::string& why) {
  return {Code::kInvalidArgument, reasons::kBadConfig, "[tls] " + path + ": " + why,
          "see [tls] in the configuration: ca, certificate and key are PEM files"};
}

// What OpenSSL has to say, which is then forgotten.
std::string Complaint() {
  char text[256] = "unknown format";
  if (const unsigned long error = ERR_get_error(); error != 0) {
    ERR_error_string_n(error, text, sizeof text);
  }
  ERR_clear_error();
  return text;
}

Result<std::string> Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return os::ErrnoStatus(errno, "opening " + path + " of [tls]");
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.str().size() > kMostFileBytes) return Bad(path, "is no file of certificates");
  return text.str();
}

Bio Open(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Never asks a terminal for a password.
int NoPassword(char*, int, int, void*) { return 0; }

Result<Certificate> FirstCertificate(const std::string& path, const std::string& text) {
  const Bio bio = Open(text);
  Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr));
  if (certificate == nullptr) return Bad(path, "has no certificate (" + Complaint() + ")");
  return certificate;
}

Status CheckDates(const std::string& path, const X509& certificate) {
  if (X509_cmp_current_time(X509_get0_notBefore(&certificate)) > 0) {
    return Bad(path, "is not valid yet; is this machine's clock right?");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(&certificate)) < 0) {
    return Bad(path, "has expired");
  }
  return OkStatus();
}

Status CheckKey(const TlsFiles& files, X509& certificate, const std::string& key_text) {
  const Bio bio = Open(key_text);
  const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) {
    return Bad(files.key, "has no private key without a password (" + Complaint() + ")");
  }
  if (X509_check_private_key(&certificate, key.get()) != 1) {
    ERR_clear_error();
    return Bad(files.key, "is not the key of " + files.certificate);
  }
  return OkStatus();
}

}  // namespace

Credentials PlainText() {
  return {false, grpc::InsecureServerCredentials(), grpc::InsecureChannelCredentials()};
}

Result<Credentials> MutualTls(const TlsFiles& files, const std::string& node) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string ca, Read(files.ca));
  ONECOPY_ASSIGN_OR_RETURN(const std::string chain, Read(files.certificate));
  ONECOPY_ASSIGN_OR_RETURN(const std::string key, Read(files.key));
  ONECOPY_ASSIGN_OR_RETURN(const Certificate authority, FirstCertificate(files.ca, ca));
  ONECOPY_RETURN_IF_ERROR(CheckDates(files.ca, *authority));
  ONECOPY_ASSIGN_OR_RETURN(const Certificate own, FirstCertificate(files.certificate, chain));
  ONECOPY_RETURN_IF_ERROR(CheckDates(files.certificate, *own));
  ONECOPY_RETURN_IF_ERROR(CheckKey(files, *own, key));
  // Peers will look for the name, and there alone.
  constexpr unsigned kFlags = X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS;
  if (X509_check_host(own.get(), node.data(), node.size(), kFlags, nullptr) != 1) {
    return Bad(files.certificate,
               "is not for this node: its subject alternative names lack DNS:" + node);
  }

  Credentials credentials;
  credentials.tls = true;
  grpc::SslServerCredentialsOptions server(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  server.pem_root_certs = ca;
  server.pem_key_cert_pairs.push_back({key, chain});
  credentials.server = grpc::SslServerCredentials(server);
  grpc::SslCredentialsOptions channel;
  channel.pem_root_certs = ca;
  channel.pem_private_key = key;
  channel.pem_cert_chain = chain;
  credentials.channel = grpc::SslCredentials(channel);
  return credentials;
}

}  // namespace onecopy::rpc
