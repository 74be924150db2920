// Identifies the process at the other end of a Unix socket.
#pragma once

#include "daemon/engine/registry/sessions.h"
#include "onecopy/result.h"
#include "transport/os/machine/namespace_names.h"
#include "transport/os/machine/namespaces.h"
#include "transport/os/sockets/unix_socket.h"

namespace onecopy::engine {

struct Identified {
  ClientIdentity identity;
  os::UniqueFd pidfd;  // empty for a client that cannot be seen from here
  // Nothing tells its namespaces from another's but this connection itself.
  bool alone = false;
  // In the daemon's own namespaces.
  bool own_namespaces = false;
  os::ProcessNamespaces seen = {};  // where it is alone
};

// What the kernel says of the process behind a connection. ABORTED (OWNER_DIED) for one that has
// ended. Any thread.
Result<Identified> Identify(int socket, const os::PeerProcess& peer, os::NamespaceNames& names);

// The same client, once it has shown its namespaces: see os::WithShown.
Status TakeShown(Identified& client, int user_fd, int pid_fd, os::NamespaceNames& names);

}  // namespace onecopy::engine
