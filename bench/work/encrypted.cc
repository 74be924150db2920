// What encryption costs: the same transfer between two daemons with certificates, and between two
// that talk in the clear, in turns.
#include <sys/stat.h>

#include <chrono>

#include "bench/daemons/pair.h"
#include "bench/daemons/temp_folder.h"
#include "bench/work/hold.h"
#include "bench/work/works.h"
#include "transport/tls/issue.h"
#include "transport/tls/key_file.h"

namespace onecopy::bench {
namespace {

constexpr std::chrono::hours kLifetime{24};
constexpr char kEast[] = "east";
constexpr char kWest[] = "west";

// An authority, and a certificate of each node's, as files.
class Certificates {
 public:
  static Result<Certificates> Make() {
    Certificates made;
    ONECOPY_ASSIGN_OR_RETURN(made.folder_, TempFolder::Create());
    ONECOPY_ASSIGN_OR_RETURN(const tls::Issued authority,
                             tls::MakeAuthority("onecopy-bench", kLifetime));
    ONECOPY_RETURN_IF_ERROR(
        tls::WritePem(made.File("ca.pem"), authority.certificate, false, false));
    for (const std::string node : {kEast, kWest}) {
      ONECOPY_ASSIGN_OR_RETURN(const tls::Issued issued,
                               tls::IssueForNode(authority, node, kLifetime));
      ONECOPY_RETURN_IF_ERROR(
          tls::WritePem(made.File(node + ".pem"), issued.certificate, false, false));
      ONECOPY_RETURN_IF_ERROR(tls::WritePem(made.File(node + ".key"), issued.key, true, false));
    }
    return made;
  }

  std::string Section(const std::string& node) const {
    return "[tls]\nca = \"" + File("ca.pem") + "\"\ncertificate = \"" + File(node + ".pem") +
           "\"\nkey = \"" + File(node + ".key") + "\"\n";
  }

 private:
  std::string File(const std::string& name) const { return folder_->path() + "/" + name; }

  std::unique_ptr<TempFolder> folder_;
};

Result<Pair> StartEncrypted(const Certificates& certificates, const Settings& settings) {
  DaemonOptions east = settings.daemon;
  DaemonOptions west = settings.daemon;
  east.sections += certificates.Section(kEast);
  west.sections += certificates.Section(kWest);
  return Pair::Start(east, west);
}

TransferParams ParamsOf(const Pair& pair) {
  return {pair.east->AsNode(), "host", pair.west->AsNode(), "host", "tcp-direct", "tcp"};
}

}  // namespace

std::vector<Row> EncryptedHostToHost(const Settings& settings) {
  Row row = {.work = "encrypted host to host",
             .path = "tcp-direct",
             .bytes = settings.bytes,
             .ceiling = "the same transfer in the clear"};
  const Result<Certificates> certificates = Certificates::Make();
  if (!certificates.ok()) return {NotSetUp(row, certificates.status())};
  const Result<Pair> encrypted = StartEncrypted(*certificates, settings);
  if (!encrypted.ok()) return {NotSetUp(row, encrypted.status())};
  const Result<Pair> plain = Pair::Start(settings.daemon);
  if (!plain.ok()) return {NotSetUp(row, plain.status())};
  const MakeCeiling ceiling = [&](const Moved&) {
    return MakeTransfer(ParamsOf(*plain), settings.bytes);
  };
  const Compared compared = HoldTransfer(std::move(row), ParamsOf(*encrypted), ceiling, settings,
                                         {.must_be_there = true});
  return {compared.row, CpuRow(compared, "the-same-in-the-clear")};
}

}  // namespace onecopy::bench
