#include "client/cli/authority.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "transport/os/base/error.h"
#include "transport/tls/key_file.h"

namespace onecopy::cli {

std::string In(const std::string& folder, const std::string& file) {
  return folder == "." ? file : folder + "/" + file;
}

Status MakeFolder(const std::string& folder, mode_t mode) {
  if (::mkdir(folder.c_str(), mode) == 0 || errno == EEXIST) return OkStatus();
  return os::ErrnoStatus(errno, "making the folder " + folder);
}

Result<tls::Issued> ReadAuthority(const std::string& folder) {
  const std::string certificate = In(folder, "ca.pem");
  tls::Issued authority;
  Result<std::string> text = tls::ReadPem(certificate);
  if (!text.ok()) {
    return Status(text.status().code(), text.status().reason(), text.status().message(),
                  "name the authority's folder with --ca; onecopy cert init-ca makes one");
  }
  authority.certificate = *std::move(text);
  ONECOPY_ASSIGN_OR_RETURN(authority.key, tls::ReadPrivateKey(In(folder, "ca.key")));
  return authority;
}

Status WriteIssued(const tls::Issued& issued, const std::string& certificate,
                   const std::string& key, bool replace) {
  ONECOPY_RETURN_IF_ERROR(tls::WritePem(key, issued.key, true, replace));
  const Status status = tls::WritePem(certificate, issued.certificate, false, replace);
  if (!status.ok() && !replace) ::unlink(key.c_str());
  return status;
}

}  // namespace onecopy::cli
