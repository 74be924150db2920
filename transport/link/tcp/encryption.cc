#include "transport/link/tcp/encryption.h"

#include "onecopy/reasons.h"

namespace onecopy::tcp {

Result<bool> AgreeOnEncryption(const Encryption& own, const std::string& peer, bool peer_can,
                               bool peer_requires) {
  if (!own.required && !peer_requires) return false;
  if (own.possible() && peer_can) return true;
  return Status(Code::kFailedPrecondition, reasons::kInsecure,
                own.possible() ? "this node encrypts its tcp lanes, but node " + peer + " cannot"
                               : "node " + peer + " encrypts its tcp lanes, but this node cannot",
                "give both nodes certificates under [tls]");
}

std::string EncryptionText(const std::string& cipher, bool source_by_kernel, bool own_by_kernel) {
  const auto by = [](bool kernel) { return kernel ? "kernel" : "daemon"; };
  std::string text = "TLS 1.3, " + cipher + ", by " + by(source_by_kernel);
  if (source_by_kernel != own_by_kernel) text += std::string(" > ") + by(own_by_kernel);
  return text;
}

}  // namespace onecopy::tcp
