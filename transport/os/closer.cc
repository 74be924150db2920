#include "transport/os/closer.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace onecopy::os {
namespace {

constexpr std::chrono::seconds kIdle{5};  // then a thread ends

}  // namespace

struct Closer::Shared {
  std::mutex mutex;
  std::condition_variable more;
  std::map<Uid, std::deque<UniqueFunction<void()>>> queues;  // never empty; guarded by mutex
  std::set<Uid> served;  // whose work a thread is doing; guarded by mutex
  size_t threads = 0;    // guarded by mutex
  size_t idle = 0;       // guarded by mutex

  // Somebody's that nobody serves; queues.end() where there is none. Under the mutex.
  auto Next() {
    auto next = queues.begin();
    while (next != queues.end() && served.contains(next->first)) ++next;
    return next;
  }

  // How many have work that nobody does.
  size_t Unserved() const {
    return static_cast<size_t>(std::count_if(queues.begin(), queues.end(), [this](const auto& of) {
      return !served.contains(of.first);
    }));
  }

  // The work of one thread.
  void Serve() {
    std::unique_lock lock(mutex);
    while (true) {
      const auto next = Next();
      if (next == queues.end()) {
        ++idle;
        const bool woken = more.wait_for(lock, kIdle, [this] { return Next() != queues.end(); });
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
      lock.unlock();
      work();
      work = nullptr;  // what it holds may block, too
      lock.lock();
      served.erase(payer);
    }
  }
};

Closer::Closer() : shared_(std::make_shared<Shared>()) {}
Closer::~Closer() = default;

void Closer::Run(const Uid& payer, UniqueFunction<void()> work) {
  std::unique_lock lock(shared_->mutex);
  shared_->queues[payer].push_back(std::move(work));
  // Of those that idle some may have been woken already, for others.
  if (shared_->idle >= shared_->Unserved()) return shared_->more.notify_one();
  if (shared_->threads == kMostThreads) return;
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
  lock.unlock();
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
