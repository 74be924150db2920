#include "transport/link/tcp/zero_copy.h"

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "transport/link/tcp/lane_socket.h"

namespace onecopy::tcp {
namespace {

// Something else must be better by a tenth, so that noise decides nothing.
constexpr double kBetter = 0.9;
constexpr size_t kControlBytes = 256;

std::chrono::nanoseconds ThreadTime() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

bool IsReport(const cmsghdr& control) {
  return (control.cmsg_level == SOL_IP && control.cmsg_type == IP_RECVERR) ||
         (control.cmsg_level == SOL_IPV6 && control.cmsg_type == IPV6_RECVERR);
}

}  // namespace

void SendChoice::Took(bool zero_copy, uint64_t bytes, std::chrono::nanoseconds cpu) {
  if (decided_) return;
  Cost& cost = zero_copy ? left_ : copied_;
  cost.bytes += bytes;
  cost.cpu += cpu;
  zero_copy_ = left_.bytes <= copied_.bytes;
  if (left_.bytes < kTrialBytes || copied_.bytes < kTrialBytes) return;
  decided_ = true;
  zero_copy_ = left_.PerByte() <= kBetter * copied_.PerByte();
}

void SendChoice::GiveUp() {
  decided_ = true;
  zero_copy_ = false;
}

bool ZeroCopy::Open(int fd) {
  const int on = 1;
  open_ =
      use_ != ZeroCopyUse::kOff && ::setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) == 0;
  return open_;
}

bool ZeroCopy::Begin(uint64_t tag, const ExportRef& exported, uint64_t bytes) {
  const bool left = choice_.zero_copy();
  bodies_.push_back({tag, exported, bytes, 0, left, left, !left});
  return left;
}

ssize_t ZeroCopy::Send(int fd, const std::byte* data, uint64_t bytes) {
  Body& body = bodies_.back();
  iovec rest{const_cast<std::byte*>(data), bytes};
  const bool timed = choice_.trying();
  const auto begin = timed ? ThreadTime() : std::chrono::nanoseconds();
  ssize_t sent = SendVector(fd, &rest, 1, body.left ? MSG_ZEROCOPY : 0);
  if (sent < 0 && body.left && (errno == ENOBUFS || errno == EFAULT)) {
    // Too much is pinned or unreported just now; or memory that cannot be pinned.
    if (errno == EFAULT) choice_.GiveUp();
    body.left = false;
    sent = SendVector(fd, &rest, 1, 0);
  }
  if (sent <= 0) return sent;
  const auto taken = static_cast<uint64_t>(sent);
  const bool left = body.left;
  if (left) {
    ++body.under_way;
    sends_.push_back({first_body_ + bodies_.size() - 1});
  } else {
    body.copied = true;
  }
  body.unsent -= taken;
  FinishIfThrough(body);
  if (timed) choice_.Took(left, taken, ThreadTime() - begin);
  return sent;
}

void ZeroCopy::Abandon() {
  if (!sending()) return;
  Body& body = bodies_.back();
  body.unsent = 0;
  body.report_due = false;
  FinishIfThrough(body);
}

void ZeroCopy::FinishIfThrough(Body& body) {
  if (body.unsent > 0 || body.under_way > 0) return;
  if (body.report_due) finished_.push_back({body.tag, body.copied});
  body.exported.reset();
  while (!bodies_.empty() && bodies_.front().exported == nullptr) {
    bodies_.pop_front();
    ++first_body_;
  }
}

void ZeroCopy::TakeReports(int fd) {
  const bool timed = choice_.trying();
  const auto begin = timed ? ThreadTime() : std::chrono::nanoseconds();
  while (true) {
    alignas(cmsghdr) std::byte control[kControlBytes];
    msghdr message{};
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (::recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
      if (!IsReport(*one)) continue;
      const auto& report = *reinterpret_cast<const sock_extended_err*>(CMSG_DATA(one));
      if (report.ee_origin != SO_EE_ORIGIN_ZEROCOPY) continue;
      Reported(report.ee_info, report.ee_data, (report.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0);
    }
  }
  if (timed) choice_.Took(true, 0, ThreadTime() - begin);
}

void ZeroCopy::Reported(uint32_t first, uint32_t last, bool copied) {
  // What copies once will copy again: a loopback device, one without scatter and gather, a tap.
  if (copied) choice_.GiveUp();
  const uint32_t count = last - first + 1;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t at = first + i - first_send_;
    if (at >= sends_.size()) break;
    Sent& send = sends_[at];
    if (std::exchange(send.reported, true)) continue;
    Body& body = bodies_[send.body - first_body_];
    body.copied |= copied;
    --body.under_way;
    FinishIfThrough(body);
  }
  while (!sends_.empty() && sends_.front().reported) {
    sends_.pop_front();
    ++first_send_;
  }
}

void ZeroCopy::Forget() {
  bodies_.clear();
  sends_.clear();
  finished_.clear();
}

}  // namespace onecopy::tcp
