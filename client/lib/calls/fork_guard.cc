#include "client/lib/calls/fork_guard.h"

#include <grpc/grpc.h>
#include <pthread.h>

#include <atomic>
#include <string>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::client {
namespace {

// Constant-initialised: they count before any constructor runs.
std::atomic<uint64_t> generation{0};
std::atomic<bool> used{false};       // in this process or an ancestor of it
std::atomic<bool> inherited{false};  // used by an ancestor, before it forked

// The program may use the same gRPC without us. Asked before the fork: afterwards its lock may be
// held by a thread that does not exist.
void BeforeFork() {
  if (::grpc_is_initialized() != 0) used = true;
}

void InChild() {
  generation.fetch_add(1, std::memory_order_relaxed);
  if (used) inherited = true;
}

// Fails only without memory, before the program has begun.
[[maybe_unused]] const int registered = ::pthread_atfork(BeforeFork, nullptr, InChild);

Status Forked(std::string what) {
  return {Code::kFailedPrecondition, reasons::kForked, std::move(what),
          "start such processes with exec (multiprocessing's \"spawn\" or \"forkserver\"), or "
          "connect only after the fork"};
}

}  // namespace

uint64_t ForkGuard::Generation() { return generation.load(std::memory_order_relaxed); }

Status ForkGuard::CheckProcess() {
  if (!inherited.load(std::memory_order_relaxed)) return OkStatus();
  return Forked(
      "this process was forked by one that had used gRPC, and gRPC's threads do not survive a "
      "fork: it cannot have a client");
}

Status ForkGuard::CheckObject(uint64_t made_in, const char* what) {
  if (made_in == Generation()) return OkStatus();
  return Forked("this " + std::string(what) +
                " was made before the process forked, and belongs to the parent process");
}

void ForkGuard::NoteUse() { used = true; }

}  // namespace onecopy::client
