#include "transport/tls/certificate.h"

#include <openssl/asn1.h>
#include <openssl/bn.h>
#include <openssl/pem.h>

#include <array>
#include <charconv>
#include <ctime>
#include <functional>
#include <set>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/core/base/name.h"

namespace onecopy::tls {
namespace {

std::string Hex(const unsigned char* bytes, size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

// `visit(is_dns, name)` for each DNS name and URI; the bytes are as they stand there, zeros too.
void ForEachName(X509* x509, const std::function<void(bool is_dns, std::string_view name)>& visit) {
  const std::unique_ptr<GENERAL_NAMES, Freer<GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(x509, NID_subject_alt_name, nullptr, nullptr)));
  if (names == nullptr) return;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    int type = 0;
    const void* value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &type);
    if (type != GEN_DNS && type != GEN_URI) continue;
    const auto* text = static_cast<const ASN1_IA5STRING*>(value);
    visit(type == GEN_DNS, {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                            static_cast<size_t>(ASN1_STRING_length(text))});
  }
}

// "1000@west": the number as it would be printed, and the name of a node.
std::optional<std::pair<uint32_t, std::string_view>> ParseUser(std::string_view text) {
  const size_t at = text.find('@');
  if (at == std::string_view::npos || !IsName(std::string(text.substr(at + 1)))) return {};
  uint32_t uid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + at, uid);
  // The last number is not a user's, to the kernel too.
  if (error != std::errc() || end != text.data() + at || uid == UINT32_MAX) return {};
  if (std::to_string(uid) != text.substr(0, at)) return {};
  return std::pair(uid, text.substr(at + 1));
}

}  // namespace

bool Certificate::IsFor(std::string_view node) const {
  if (node.empty()) return false;
  const std::string uri = std::string(kNodeUri) + std::string(node);
  bool found = false;
  bool user = false;
  ForEachName(x509(), [&](bool is_dns, std::string_view name) {
    found |= name == (is_dns ? node : std::string_view(uri));
    user |= !is_dns && name.starts_with(kUserUri);
  });
  return found && !user;
}

Certificate::User Certificate::UserAt(std::string_view node) const {
  std::set<uint32_t> uids;
  std::string fault;
  ForEachName(x509(), [&](bool is_dns, std::string_view name) {
    if (is_dns || !name.starts_with(kUserUri)) {
      if (is_dns || name.starts_with(kNodeUri)) fault = "is for a node, " + Plain(name);
      return;
    }
    const auto user = ParseUser(name.substr(kUserUri.size()));
    if (!user) {
      fault = "has a name that is not a user's, " + Plain(name);
    } else if (user->second == node) {
      uids.insert(user->first);
    }
  });
  if (!fault.empty()) return {0, std::move(fault)};
  if (uids.size() == 1) return {*uids.begin(), {}};
  return {0, (uids.empty() ? "names no user of node " : "names several users of node ") +
                 std::string(node)};
}

std::vector<std::string> Certificate::Names() const {
  std::vector<std::string> names;
  ForEachName(x509(), [&](bool is_dns, std::string_view name) {
    names.push_back((is_dns ? "DNS:" : "URI:") + Plain(name));
  });
  return names;
}

std::string Certificate::Subject() const { return NameText(X509_get_subject_name(x509())); }
std::string Certificate::Issuer() const { return NameText(X509_get_issuer_name(x509())); }

std::string Certificate::Serial() const { return NumberText(X509_get0_serialNumber(x509())); }

std::string Certificate::Fingerprint() const {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned bytes = 0;
  X509_digest(x509(), EVP_sha256(), digest.data(), &bytes);
  return Hex(digest.data(), bytes);
}

bool Certificate::IsAuthority() const { return X509_check_ca(x509()) != 0; }
WallTime Certificate::NotBefore() const { return TimeOf(X509_get0_notBefore(x509())); }
WallTime Certificate::NotAfter() const { return TimeOf(X509_get0_notAfter(x509())); }

Result<Chain> ParseCertificates(std::string_view pem) {
  const Bio bio = OpenText(pem);
  Chain chain;
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr)) {
    chain.emplace_back(Own(next));
  }
  const std::string complaint = Complaint();  // that there are no more, if nothing else
  if (!chain.empty()) return chain;
  return Status(Code::kInvalidArgument, reasons::kBadConfig,
                "has no certificate in PEM form (" + complaint + ")");
}

std::string NameText(const X509_NAME* name) {
  const Bio bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253);
  return Plain(TextOf(bio.get()));
}

std::string NumberText(const ASN1_INTEGER* number) {
  const std::unique_ptr<BIGNUM, Freer<BN_free>> value(ASN1_INTEGER_to_BN(number, nullptr));
  if (value == nullptr) return {};
  std::vector<unsigned char> bytes(static_cast<size_t>(BN_num_bytes(value.get())));
  BN_bn2bin(value.get(), bytes.data());
  return Hex(bytes.data(), bytes.size());
}

WallTime TimeOf(const ASN1_TIME* time) {
  std::tm broken{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &broken) != 1) return {};
  return std::chrono::system_clock::from_time_t(::timegm(&broken));
}

std::string TimeText(WallTime time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm broken{};
  ::gmtime_r(&seconds, &broken);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &broken);
  return text.data();
}

Result<std::vector<CrlRef>> ParseCrls(std::string_view pem) {
  const Bio bio = OpenText(pem);
  std::vector<CrlRef> lists;
  while (X509_CRL* next = PEM_read_bio_X509_CRL(bio.get(), nullptr, NoPassword, nullptr)) {
    lists.push_back(Own(next));
  }
  const std::string complaint = Complaint();
  if (!lists.empty()) return lists;
  return Status(Code::kInvalidArgument, reasons::kBadConfig,
                "has no list of revoked certificates in PEM form (" + complaint + ")");
}

std::optional<WallTime> NextUpdate(const X509_CRL* list) {
  const ASN1_TIME* next = X509_CRL_get0_nextUpdate(list);
  if (next == nullptr) return std::nullopt;
  return TimeOf(next);
}

RevokedList Describe(const X509_CRL* list) {
  RevokedList described{NameText(X509_CRL_get_issuer(list)),
                        TimeOf(X509_CRL_get0_lastUpdate(list)),
                        NextUpdate(list),
                        {}};
  // OpenSSL's reader changes nothing of the list, whatever its signature says.
  const STACK_OF(X509_REVOKED)* entries = X509_CRL_get_REVOKED(const_cast<X509_CRL*>(list));
  for (int i = 0; i < sk_X509_REVOKED_num(entries); ++i) {
    described.serials.push_back(
        NumberText(X509_REVOKED_get0_serialNumber(sk_X509_REVOKED_value(entries, i))));
  }
  return described;
}

}  // namespace onecopy::tls
