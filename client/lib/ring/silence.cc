#include "client/lib/ring/silence.h"

#include <utility>

namespace onecopy::client {

Silence::Silence(std::chrono::milliseconds limit, Ask ask) : limit_(limit), ask_(std::move(ask)) {}

Silence::~Silence() {
  const MutexLock lock(mutex_);
  if (asking_) context_->TryCancel();
  while (asking_) changed_.Wait(mutex_);
}

void Silence::NoteHeard() {
  heard_.store(Clock::now(), std::memory_order_relaxed);
  lasts_.store(false, std::memory_order_relaxed);
}

bool Silence::Look() {
  const Clock::time_point now = Clock::now();
  if (now - heard_.load(std::memory_order_relaxed) < limit_ / 2) return lasts();
  grpc::ClientContext* context = nullptr;
  {
    const MutexLock lock(mutex_);
    if (asking_) return lasts();
    asking_ = true;
    asked_ = now;
    context_ = std::make_unique<grpc::ClientContext>();
    context = context_.get();
  }
  // It may have to connect, which a daemon that is stopped does not keep it from trying.
  context->set_wait_for_ready(true);
  context->set_deadline(std::chrono::system_clock::now() + limit_ / 2);
  ask_(*context, [this](const grpc::Status& status) { Answered(status); });
  return lasts();
}

void Silence::Answered(const grpc::Status& status) {
  const MutexLock lock(mutex_);
  asking_ = false;
  // Only this process has slept where far more time has passed: it has to ask again.
  const bool overslept = Clock::now() - asked_ > limit_;
  if (status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) {
    NoteHeard();
  } else if (!overslept) {
    lasts_.store(true, std::memory_order_relaxed);
  }
  changed_.NotifyAll();
}

}  // namespace onecopy::client
