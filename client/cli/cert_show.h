// `onecopy cert show`.
#pragma once

#include <string>
#include <vector>

#include "client/cli/session.h"

namespace onecopy::cli {

// What stands in these files of certificates and of revoked ones.
Status ShowCertificates(Session& session, const std::vector<std::string>& files);

}  // namespace onecopy::cli
