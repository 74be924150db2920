#include "transport/os/threads/closer.h"

#include <pthread.h>

#include <chrono>
#include <thread>
#include <utility>

#include "transport/core/base/mutex.h"

namespace onecopy::os {
namespace {

constexpr std::chrono::seconds kIdle{5};  // then a thread ends

}  // namespace

struct Closer::Shared {
  Mutex mutex;
  Condition more;
  // None is empty.
  std::map<Uid, std::deque<UniqueFunction<void()>>> queues ONECOPY_GUARDED_BY(mutex);
  std::set<Uid> served ONECOPY_GUARDED_BY(mutex);  // whose work a thread is doing
  size_t threads ONECOPY_GUARDED_BY(mutex) = 0;
  size_t idle ONECOPY_GUARDED_BY(mutex) = 0;

  // A client's queue that no thread serves; queues.end() if there is none.
  auto Next() ONECOPY_REQUIRES(mutex) {
    auto next = queues.begin();
    while (next != queues.end() && served.contains(next->first)) ++next;
    return next;
  }

  // How many have work that no thread does.
  size_t Unserved() const ONECOPY_REQUIRES(mutex) {
    size_t unserved = 0;
    for (const auto& [payer, work] : queues) unserved += served.contains(payer) ? 0 : 1;
    return unserved;
  }

  // False if there is none for long.
  bool AwaitWork() ONECOPY_REQUIRES(mutex) {
    const auto deadline = std::chrono::steady_clock::now() + kIdle;
    while (Next() == queues.end()) {
      if (!more.WaitUntil(mutex, deadline)) return Next() != queues.end();
    }
    return true;
  }

  // The work of one thread.
  void Serve() {
    MutexLock lock(mutex);
    while (true) {
      const auto next = Next();
      if (next == queues.end()) {
        ++idle;
        const bool woken = AwaitWork();
        --idle;
        if (woken) continue;
        --threads;
        return;
      }
      const Uid payer = next->first;
      UniqueFunction<void()> work = std::move(next->second.front());
      next->second.pop_front();
      if (next->second.empty()) queues.erase(next);
      served.insert(payer);
      lock.Unlock();
      work();
      work = nullptr;  // what it holds may block, too
      lock.Lock();
      served.erase(payer);
    }
  }
};

Closer::Closer() : shared_(std::make_shared<Shared>()) {}
Closer::~Closer() = default;

void Closer::Run(const Uid& payer, UniqueFunction<void()> work) {
  MutexLock lock(shared_->mutex);
  shared_->queues[payer].push_back(std::move(work));
  // Of those that idle some may have been woken already, for others.
  if (shared_->idle >= shared_->Unserved()) return shared_->more.NotifyOne();
  if (shared_->threads == kMaxThreads) return;
  try {
    std::thread thread([shared = shared_] {
      ::pthread_setname_np(::pthread_self(), "close");
      shared->Serve();
    });
    thread.detach();
    ++shared_->threads;
    return;
  } catch (const std::system_error&) {
    // Those that there are will come to it.
    if (shared_->threads > 0) return;
  }
  // Nobody else can: it may block here, but it is done.
  auto all = std::move(shared_->queues.extract(payer).mapped());
  lock.Unlock();
  for (UniqueFunction<void()>& one : all) one();
}

void Closer::Close(const Uid& payer, UniqueFd fd) {
  if (!fd) return;
  Run(payer, [fd = std::move(fd)]() mutable { fd.Reset(); });
}

PassedFd& PassedFd::operator=(PassedFd&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  fd_ = std::move(other.fd_);
  closer_ = std::move(other.closer_);
  payer_ = std::move(other.payer_);
  return *this;
}

void PassedFd::Reset() {
  if (fd_ && closer_ != nullptr) closer_->Close(payer_, std::move(fd_));
  fd_.Reset();
}

}  // namespace onecopy::os
