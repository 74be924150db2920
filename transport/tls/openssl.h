// Inside transport/tls: OpenSSL's objects as owners of what they hold.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

#include "onecopy/result.h"

namespace onecopy::tls {

template <auto free>
struct Freer {
  void operator()(auto* object) const { free(object); }
};
using Bio = std::unique_ptr<BIO, Freer<BIO_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using X509Ref = std::shared_ptr<X509>;
using CrlRef = std::shared_ptr<X509_CRL>;

inline X509Ref Own(X509* certificate) { return X509Ref(certificate, X509_free); }
inline CrlRef Own(X509_CRL* list) { return CrlRef(list, X509_CRL_free); }

// To read from; `text` must outlive it.
Bio OpenText(std::string_view text);
// What was written to a BIO of memory.
std::string TextOf(BIO* bio);

// The oldest complaint of this thread's OpenSSL; all of them are forgotten.
std::string Complaint();

// For OpenSSL's readers: gives no password, and asks no terminal for one.
int NoPassword(char*, int, int, void*);

// `text` with what could steer a terminal or forge a line of a log as '?'.
std::string Plain(std::string_view text);

}  // namespace onecopy::tls
