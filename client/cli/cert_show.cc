#include "client/cli/cert_show.h"

#include <chrono>

#include "client/cli/output/escape.h"
#include "client/cli/output/table.h"
#include "client/cli/output/time.h"
#include "onecopy/reasons.h"
#include "transport/tls/certificate.h"
#include "transport/tls/key_file.h"

namespace onecopy::cli {
namespace {

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "none" : text;
}

// "until 2027-01-31 12:00 UTC, 69 days"
std::string Until(tls::WallTime when) {
  const auto left = when - std::chrono::system_clock::now();
  if (left < left.zero()) return tls::TimeText(when) + ", EXPIRED";
  const auto days = std::chrono::duration_cast<std::chrono::hours>(left).count() / 24;
  return tls::TimeText(when) + ", " + std::to_string(days) + " days left";
}

Json FileToJson(const std::string& file, const tls::Certificate& certificate) {
  return {{"file", file},
          {"kind", certificate.IsAuthority() ? "authority" : "certificate"},
          {"subject", certificate.Subject()},
          {"names", certificate.Names()},
          {"issuer", certificate.Issuer()},
          {"serial", certificate.Serial()},
          {"not_before", FormatTime(certificate.NotBefore())},
          {"not_after", FormatTime(certificate.NotAfter())},
          {"expired", certificate.NotAfter() < std::chrono::system_clock::now()},
          {"sha256", certificate.Fingerprint()}};
}

Json FileToJson(const std::string& file, const tls::RevokedList& list) {
  Json json{{"file", file},
            {"kind", "revoked"},
            {"issuer", list.issuer},
            {"serials", list.serials},
            {"not_before", FormatTime(list.since)},
            {"not_after", ""},
            {"expired", false}};
  if (list.next) {
    json["not_after"] = FormatTime(*list.next);
    json["expired"] = *list.next < std::chrono::system_clock::now();
  }
  return json;
}

void PrintRows(Session& session, const std::string& file,
               const std::vector<std::pair<std::string, std::string>>& rows) {
  session.out() << Printable(file) << '\n';
  Table table({{""}, {""}});
  for (const auto& [name, value] : rows) table.Add({name, value});
  table.PrintRows(session.out(), "  ");
}

void PrintOne(Session& session, const std::string& file, const tls::Certificate& certificate) {
  PrintRows(session, file,
            {{"subject", certificate.Subject()},
             {certificate.IsAuthority() ? "is" : "for",
              certificate.IsAuthority() ? "an authority" : Join(certificate.Names())},
             {"issuer", certificate.Issuer()},
             {"serial", certificate.Serial()},
             {"from", tls::TimeText(certificate.NotBefore())},
             {"until", Until(certificate.NotAfter())},
             {"sha256", certificate.Fingerprint()}});
}

void PrintOne(Session& session, const std::string& file, const tls::RevokedList& list) {
  PrintRows(session, file,
            {{"revoked", Join(list.serials)},
             {"issuer", list.issuer},
             {"from", tls::TimeText(list.since)},
             {"until", list.next ? Until(*list.next) : "never replaced"}});
}

template <typename Described>
void ShowFile(Session& session, const std::string& file, const Described& described,
              Json& documents) {
  if (session.json()) {
    documents.push_back(FileToJson(file, described));
  } else {
    PrintOne(session, file, described);
  }
}

}  // namespace

Status ShowCertificates(Session& session, const std::vector<std::string>& files) {
  Json documents = Json::array();
  for (const std::string& file : files) {
    ONECOPY_ASSIGN_OR_RETURN(const std::string text, tls::ReadPem(file));
    const auto certificates = tls::ParseCertificates(text);
    const auto lists = tls::ParseCrls(text);
    if (!certificates.ok() && !lists.ok()) {
      return {Code::kInvalidArgument, reasons::kBadArgument,
              Quote(file) + " " + certificates.status().message(),
              "name a file of certificates, or of revoked ones, in PEM form"};
    }
    if (certificates.ok()) {
      for (const tls::Certificate& one : *certificates) ShowFile(session, file, one, documents);
    }
    if (lists.ok()) {
      for (const tls::CrlRef& one : *lists) {
        ShowFile(session, file, tls::Describe(one.get()), documents);
      }
    }
  }
  if (session.json()) Print(session.out(), documents);
  return OkStatus();
}

}  // namespace onecopy::cli
