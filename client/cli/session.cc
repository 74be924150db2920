#include "client/cli/session.h"

#include "client/cli/version.h"

namespace onecopy::cli {

Result<Client> Session::Connect() const {
  ConnectOptions connect;
  connect.run_dir = options_.run_dir;
  connect.program = "onecopy " ONECOPY_VERSION;
  return Client::Connect(connect);
}

}  // namespace onecopy::cli
