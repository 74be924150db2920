// PEM files: read whole, as those of [tls] are, and written for `onecopy cert`.
#pragma once

#include <string>

#include "onecopy/result.h"

namespace onecopy::tls {

// A failure that names the file: "[tls] FILE: why", INVALID_ARGUMENT (BAD_CONFIG).
Status BadFile(const std::string& path, const std::string& why, const std::string& remedy = {});

// The text of a file; fails, naming it, where it cannot be read or is too long to be one of these.
Result<std::string> ReadPem(const std::string& path);

// The same of a private key, which only its owner may be able to read: PERMISSION_DENIED
// (ACCESS_DENIED) if others can. A key of root's may be read by a group, which is how a service
// gets it. What is looked at is what is read, whatever the name refers to a moment later.
Result<std::string> ReadPrivateKey(const std::string& path);

// Puts a file there: a certificate's for all to read, a key's for its owner alone. It is there as a
// whole or not at all. ALREADY_EXISTS (NAME_TAKEN) for a name that is in use, unless `replace`.
Status WritePem(const std::string& path, const std::string& text, bool secret, bool replace);

}  // namespace onecopy::tls
