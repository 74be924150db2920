#include "tests/rdma/lend/device.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "tests/rdma/lend/control.h"

namespace onecopy::lend {
namespace {

// One opened device. Its `async_fd` is an epoll of the real one and of `wake`, so that whoever
// polls it learns of events of either kind.
struct Opened {
  ibv_context* context;
  std::string device;
  ibv_context_ops operations;  // the real ones
  int async_fd;                // the real one
  int wake;                    // readable from the removal until it has been told
  int both;                    // the epoll
  std::mutex exchange = {};    // held while the context has the real async_fd
  std::atomic<bool> removed = false;
  std::atomic<bool> told = false;
};

std::shared_mutex mutex;
using Table = std::unordered_map<const ibv_context*, std::unique_ptr<Opened>>;
Table& AllOpened() {
  static auto* const table = new Table;  // the watching thread outlives every destructor
  return *table;
}

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::abort();
}

// Null for a context that was opened when no test controlled the process.
Opened* Find(const ibv_context* context) {
  const std::shared_lock lock(mutex);
  const auto found = AllOpened().find(context);
  return found == AllOpened().end() ? nullptr : found->second.get();
}

bool Learn(Opened* opened) {
  if (opened->removed) return true;
  if (!Removed(opened->device)) return false;
  if (!opened->removed.exchange(true)) ::eventfd_write(opened->wake, 1);
  return true;
}

// For the calls that must be fast: true as soon as the watching thread has seen the removal.
const Opened& At(const ibv_context* context) { return *Find(context); }

int PostSend(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
  const Opened& opened = At(qp->context);
  if (!opened.removed) return opened.operations.post_send(qp, request, bad);
  *bad = request;
  return EIO;
}

int PostReceive(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad) {
  const Opened& opened = At(qp->context);
  if (!opened.removed) return opened.operations.post_recv(qp, request, bad);
  *bad = request;
  return EIO;
}

int PostSharedReceive(ibv_srq* srq, ibv_recv_wr* request, ibv_recv_wr** bad) {
  const Opened& opened = At(srq->context);
  if (!opened.removed) return opened.operations.post_srq_recv(srq, request, bad);
  *bad = request;
  return EIO;
}

int Poll(ibv_cq* cq, int count, ibv_wc* completions) {
  const Opened& opened = At(cq->context);
  return opened.removed ? -EIO : opened.operations.poll_cq(cq, count, completions);
}

int RequestNotification(ibv_cq* cq, int solicited_only) {
  const Opened& opened = At(cq->context);
  return opened.removed ? EIO : opened.operations.req_notify_cq(cq, solicited_only);
}

ibv_mw* AllocateWindow(ibv_pd* pd, ibv_mw_type type) {
  const Opened& opened = At(pd->context);
  if (!opened.removed) return opened.operations.alloc_mw(pd, type);
  errno = EIO;
  return nullptr;
}

int BindWindow(ibv_qp* qp, ibv_mw* window, ibv_mw_bind* bind) {
  const Opened& opened = At(qp->context);
  return opened.removed ? EIO : opened.operations.bind_mw(qp, window, bind);
}

void Watch(int notifications) {
  alignas(inotify_event) char buffer[4096];
  while (true) {
    {
      const std::shared_lock lock(mutex);
      for (const auto& [context, opened] : AllOpened()) Learn(opened.get());
    }
    if (::read(notifications, buffer, sizeof buffer) < 0 && errno != EINTR) Die("inotify");
  }
}

void StartWatching() {
  static std::once_flag once;
  std::call_once(once, [] {
    const int notifications = ::inotify_init1(IN_CLOEXEC);
    if (notifications < 0 ||
        ::inotify_add_watch(notifications, RemovedFolder().c_str(), IN_CREATE | IN_MOVED_TO) < 0)
      Die(RemovedFolder().c_str());
    std::thread(Watch, notifications).detach();
  });
}

}  // namespace

ibv_device** ListDevices(int* count) {
  int all = 0;
  ibv_device** const list = Real().ibv_get_device_list(&all);
  if (list == nullptr) return nullptr;
  int kept = 0;
  for (int i = 0; i < all; ++i) {
    if (!Removed(Real().ibv_get_device_name(list[i]))) list[kept++] = list[i];
  }
  list[kept] = nullptr;
  if (count != nullptr) *count = kept;
  return list;
}

ibv_context* OpenDevice(ibv_device* device) {
  const std::string name = Real().ibv_get_device_name(device);
  if (Removed(name)) {
    errno = ENODEV;
    return nullptr;
  }
  ibv_context* const context = Real().ibv_open_device(device);
  if (context == nullptr || ControlFolder().empty()) return context;

  auto opened = std::make_unique<Opened>();
  opened->context = context;
  opened->device = name;
  opened->operations = context->ops;
  opened->async_fd = context->async_fd;
  opened->wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  opened->both = ::epoll_create1(EPOLL_CLOEXEC);
  for (const int fd : {opened->async_fd, opened->wake}) {
    epoll_event readable = {.events = EPOLLIN, .data = {}};
    if (::epoll_ctl(opened->both, EPOLL_CTL_ADD, fd, &readable) != 0) Die("epoll");
  }
  context->async_fd = opened->both;
  context->ops.post_send = PostSend;
  context->ops.post_recv = PostReceive;
  context->ops.post_srq_recv = PostSharedReceive;
  context->ops.poll_cq = Poll;
  context->ops.req_notify_cq = RequestNotification;
  if (context->ops.alloc_mw != nullptr) context->ops.alloc_mw = AllocateWindow;
  if (context->ops.bind_mw != nullptr) context->ops.bind_mw = BindWindow;
  StartWatching();
  const std::unique_lock lock(mutex);
  Learn(opened.get());  // removed since, before the watching thread could know of it
  AllOpened().emplace(context, std::move(opened));
  return context;
}

int CloseDevice(ibv_context* context) {
  std::unique_ptr<Opened> opened;
  {
    const std::unique_lock lock(mutex);
    if (const auto found = AllOpened().find(context); found != AllOpened().end()) {
      opened = std::move(found->second);
      AllOpened().erase(found);
    }
  }
  if (opened != nullptr) {
    context->ops = opened->operations;
    context->async_fd = opened->async_fd;
    ::close(opened->both);
    ::close(opened->wake);
  }
  return Real().ibv_close_device(context);
}

int NextAsyncEvent(ibv_context* context, ibv_async_event* event) {
  Opened* const opened = Find(context);
  if (opened == nullptr) return Real().ibv_get_async_event(context, event);
  while (true) {
    if (opened->removed && !opened->told.exchange(true)) {
      eventfd_t ignored = 0;
      ::eventfd_read(opened->wake, &ignored);
      *event = {};
      event->event_type = IBV_EVENT_DEVICE_FATAL;
      return 0;
    }
    pollfd real = {opened->async_fd, POLLIN, 0};
    if (::poll(&real, 1, 0) > 0) {
      const RealEvents where_it_reads(context);
      return Real().ibv_get_async_event(context, event);
    }
    if ((::fcntl(opened->both, F_GETFL) & O_NONBLOCK) != 0) {
      errno = EAGAIN;
      return -1;
    }
    pollfd any = {opened->both, POLLIN, 0};
    if (::poll(&any, 1, -1) < 0 && errno != EINTR) return -1;
  }
}

RealEvents::RealEvents(ibv_context* context) : context_(context) {
  Opened* const opened = Find(context);
  if (opened == nullptr) return;
  lock_ = std::unique_lock(opened->exchange);
  ours_ = std::exchange(context->async_fd, opened->async_fd);
}

RealEvents::~RealEvents() {
  if (lock_.owns_lock()) context_->async_fd = ours_;
}

bool IsRemoved(ibv_context* context) {
  Opened* const opened = Find(context);
  return opened != nullptr && Learn(opened);
}

}  // namespace onecopy::lend
