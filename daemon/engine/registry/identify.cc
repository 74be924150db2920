#include "daemon/engine/registry/identify.h"

#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/machine/shown_namespaces.h"

namespace onecopy::engine {

Result<Identified> Identify(int socket, const os::PeerProcess& peer, os::NamespaceNames& names) {
  Identified identified;
  ONECOPY_ASSIGN_OR_RETURN(identified.pidfd, os::UnixPeerPidfd(socket, peer));
  ClientIdentity& identity = identified.identity;
  identity.pid = peer.pid;
  identity.gid = peer.gid;
  identified.seen = os::LookAtNamespaces(peer.pid, identified.pidfd);
  const os::ProcessNamespaces& seen = identified.seen;
  os::NamespaceNames::Name name = names.Of(seen);
  identity.uid = {peer.uid, std::move(name.text)};
  identity.held_namespaces = std::move(name.held);
  identity.same_pid_namespace = seen.pid.own;
  identity.cgroup = seen.cgroup;
  identity.presenter = os::PresenterText(peer.uid, seen);
  identified.alone = name.alone;
  identified.own_namespaces = seen.user.own && seen.pid.own;
  if (!identified.alone) identified.seen = {};  // it holds descriptors
  // Only now is it sure that this was about that process, and not about a later one with its
  // number.
  if (identified.pidfd && os::HasEnded(identified.pidfd)) {
    return Status(Code::kAborted, reasons::kOwnerDied, "the client has ended");
  }
  return identified;
}

Status TakeShown(Identified& client, int user_fd, int pid_fd, os::NamespaceNames& names) {
  ClientIdentity& identity = client.identity;
  ONECOPY_ASSIGN_OR_RETURN(client.seen, os::WithShown(client.seen, identity.pid, user_fd, pid_fd));
  os::NamespaceNames::Name name = names.Of(client.seen);
  identity.uid = {identity.uid.number, std::move(name.text)};
  identity.held_namespaces = std::move(name.held);
  client.alone = name.alone;
  client.seen = {};
  return OkStatus();
}

}  // namespace onecopy::engine
