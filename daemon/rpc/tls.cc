#include "daemon/rpc/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <vector>

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
using Store = std::unique_ptr<X509_STORE, Freer<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, Freer<X509_STORE_CTX_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;

void FreeStack(STACK_OF(X509) * certificates) { sk_X509_free(certificates); }

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

// At least one.
Result<std::vector<Certificate>> CertificatesOf(const std::string& path, const std::string& text) {
  const Bio bio = Open(text);
  std::vector<Certificate> certificates;
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr)) {
    certificates.emplace_back(next);
  }
  const std::string complaint = Complaint();  // that there are no more, if nothing else
  if (certificates.empty()) return Bad(path, "has no certificate (" + complaint + ")");
  return certificates;
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

// Whether the certificate, which comes first, would pass where peers look at it.
Status CheckChain(const TlsFiles& files, const std::vector<Certificate>& chain,
                  const std::vector<Certificate>& authorities) {
  const Store store(X509_STORE_new());
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN);  // any of them may be the last
  for (const Certificate& authority : authorities) {
    X509_STORE_add_cert(store.get(), authority.get());
  }
  const std::unique_ptr<STACK_OF(X509), Freer<FreeStack>> between(sk_X509_new_null());
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(between.get(), chain[i].get());
  const StoreContext context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), between.get());
  if (X509_verify_cert(context.get()) != 1) {
    ERR_clear_error();
    return Bad(files.certificate,
               "is not signed by " + files.ca + ": " +
                   X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get())));
  }
  for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    if (X509_check_purpose(chain.front().get(), purpose, 0) != 1) {
      return Bad(files.certificate,
                 "may not be used by both a server and a client, as a daemon is: its "
                 "extendedKeyUsage needs serverAuth and clientAuth");
    }
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
  ONECOPY_ASSIGN_OR_RETURN(const auto authorities, CertificatesOf(files.ca, ca));
  ONECOPY_ASSIGN_OR_RETURN(const auto certificates, CertificatesOf(files.certificate, chain));
  X509& own = *certificates.front();
  ONECOPY_RETURN_IF_ERROR(CheckDates(files.certificate, own));
  ONECOPY_RETURN_IF_ERROR(CheckKey(files, own, key));
  ONECOPY_RETURN_IF_ERROR(CheckChain(files, certificates, authorities));
  // Peers will look for the name, and there alone.
  constexpr unsigned kFlags = X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS;
  if (X509_check_host(&own, node.data(), node.size(), kFlags, nullptr) != 1) {
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
