// Unix sockets: listening at a path, and what the kernel says about who connected.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::os {

// INVALID_ARGUMENT when no socket can have such a path: the kernel takes 107 bytes.
Status CheckSocketPath(const std::string& path);

// A listening, non-blocking socket of `type` (SOCK_STREAM, SOCK_SEQPACKET) at `path`, whose file
// gets exactly `mode`. A socket file that is there already is replaced, so the caller must know
// that no process serves it any more; any other kind of file there is ALREADY_EXISTS. The kernel's
// lists show the name under which it was made: the path with a ~ as its last character.
Result<UniqueFd> ListenUnix(const std::string& path, int type, mode_t mode, int backlog);

// A connected, non-blocking socket. UNAVAILABLE when no process listens.
Result<UniqueFd> ConnectUnix(const std::string& path, int type);

// The same with a name that no file stands for (Linux's abstract sockets): seen in one network
// namespace, gone with its socket, and open to any process, so check which user connects.
Result<UniqueFd> ListenAbstract(const std::string& name, int type, int backlog);
Result<UniqueFd> ConnectAbstract(const std::string& name, int type);

// Makes the kernel refuse descriptors that are sent to this socket, and to those that it accepts. A
// descriptor that is not taken is closed by the thread that reads or closes the socket, and that
// may take for ever. False where the kernel cannot (before 6.16).
bool RefuseDescriptors(int fd);

// As recv of a stream socket without waiting, but takes nothing where descriptors came along.
struct PlainBytes {
  ssize_t count = 0;  // 0: the end; -1: see errno
  bool descriptors = false;
};
PlainBytes ReceivePlain(int fd, char* into, size_t room);

// The process that connected, as it was then. `pid` is 0 for one in a PID namespace that cannot be
// seen from here.
struct PeerProcess {
  int32_t pid = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
};
Result<PeerProcess> UnixPeer(int fd);

// A pidfd of that process: readable once it has ended, even if another process still holds its
// socket. Where the kernel (before 6.5) cannot give it for the socket, it is opened by the number
// of the process, so call this right after accepting. ABORTED (OWNER_DIED) when the process has
// ended; an empty descriptor for one that cannot be seen from here.
Result<UniqueFd> UnixPeerPidfd(int fd, const PeerProcess& peer);
// The latter: of the process that has the number `pid` now, if it has the far end of `fd` open, or
// if that cannot be seen from here. A process that has got the number of one that connected and
// ended is OWNER_DIED.
Result<UniqueFd> PidfdByNumber(int fd, int32_t pid);

// Whether the process of a pidfd has ended.
bool HasEnded(const UniqueFd& pidfd);

}  // namespace onecopy::os
