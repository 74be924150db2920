// The client's end of attach.sock.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/lib/attach/run_dir.h"
#include "client/lib/calls/call_limit.h"
#include "client/lib/calls/turn.h"
#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy {
namespace v1 {
class AttachReply;
class AttachRequest;
}  // namespace v1

namespace client {

// A session with the daemon, which lasts as long as the connection. Thread-safe.
class AttachSocket {
 public:
  // Connects and introduces itself as `program`. Blocks at most `timeout` for each answer.
  // UNAVAILABLE (DAEMON_UNREACHABLE, PEER_INCOMPATIBLE), PERMISSION_DENIED (ACCESS_DENIED) where
  // another user could have made the run directory, or the daemon's own refusal.
  static Result<AttachSocket> Connect(const RunDir& run_dir, const std::string& program,
                                      std::chrono::milliseconds timeout);

  AttachSocket(AttachSocket&& other) noexcept;
  // Ends the session, also where a process that was forked meanwhile has the socket, too.
  ~AttachSocket();

  // Whether the daemon has ended the session; or does so within that time, which is waited for.
  bool Ended() const { return EndsWithin(std::chrono::milliseconds(0)); }
  bool EndsWithin(std::chrono::milliseconds limit) const;

  const std::string& token() const { return token_; }  // a secret
  const std::string& node() const { return node_; }
  const std::string& version() const { return version_; }  // of the daemon's program

  // How the daemon's rings are laid out; 0 where it has none.
  uint32_t ring_layout() const { return ring_layout_; }

  // How the orders for its slabs are; 0 where it has none.
  uint32_t slab_layout() const { return slab_layout_; }

  // Whether it lets clients map buffers.
  bool maps() const { return maps_; }

  // Whether it moves files that are passed to it.
  bool files() const { return files_; }

  // Whether a network device of the daemon may ever want dma-bufs of GPU memory.
  bool takes_dma_bufs() const { return takes_dma_bufs_; }

  // Whether the daemon's buffers outlive its process, so that its next one is worth waiting for.
  bool keeps_buffers() const { return keeps_buffers_; }

  // One request about rings, slabs or mappings, its reply, and the descriptors that came with it.
  Result<v1::AttachReply> Ask(const v1::AttachRequest& request, std::vector<os::UniqueFd>* fds);

  // Gives the daemon a duplicate of `fd`; the number names it in one RegisterBuffer call, or, of a
  // file, in one CreateTransfer call.
  Result<uint64_t> PassDescriptor(int fd, bool file = false);

 private:
  AttachSocket(os::UniqueFd socket, RunDir run_dir, std::chrono::milliseconds timeout);
  // One request, what is passed with it, and its reply. What comes with that is closed where `fds`
  // is null. Ends after the timeout and by the thread's CallLimit, also where requests of other
  // threads are under way or were not answered yet.
  Result<v1::AttachReply> Exchange(const v1::AttachRequest& request, std::span<const int> passed,
                                   std::vector<os::UniqueFd>* fds = nullptr);
  // The same, by the one thread whose turn it is.
  Result<v1::AttachReply> ExchangeInTurn(const v1::AttachRequest& request,
                                         std::span<const int> passed,
                                         std::vector<os::UniqueFd>* fds,
                                         const CallLimit::Time& limit);
  Status Greet(const std::string& program);
  // Of a daemon that does not see them; where it cannot use them, nothing changes.
  Status ShowNamespaces();
  Status TakeWelcome(const v1::AttachReply& reply);

  RunDir run_dir_;
  std::chrono::milliseconds timeout_;
  std::string token_;
  std::string node_;
  std::string version_;
  uint32_t ring_layout_ = 0;
  uint32_t slab_layout_ = 0;
  bool maps_ = false;
  bool files_ = false;
  bool takes_dma_bufs_ = true;
  bool keeps_buffers_ = false;
  os::UniqueFd socket_;
  Turn turn_;  // a request and its reply belong together
  // Replies that came too late for their requests, or will: the next ones come after them. Whose
  // turn it is.
  unsigned missed_ = 0;
};

}  // namespace client
}  // namespace onecopy
