// A certificate authority's folder, and the files of what it issues.
#pragma once

#include <sys/types.h>

#include <string>

#include "onecopy/result.h"
#include "transport/tls/issue.h"

namespace onecopy::cli {

// The path of a file in a folder; "." is left out.
std::string In(const std::string& folder, const std::string& file);

// If it is not there yet.
Status MakeFolder(const std::string& folder, mode_t mode);

// ca.pem and ca.key. Fails as tls::ReadPem and tls::ReadPrivateKey.
Result<tls::Issued> ReadAuthority(const std::string& folder);

// Both files or neither, as far as one program can. ALREADY_EXISTS (NAME_TAKEN), unless `replace`.
Status WriteIssued(const tls::Issued& issued, const std::string& certificate,
                   const std::string& key, bool replace);

}  // namespace onecopy::cli
