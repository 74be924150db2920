// Memory of others that loses its pages while it is touched, beside handlers of SIGBUS that others
// have.
#include "transport/os/memory/fault_trap.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/sanitized.h"
#include "transport/os/memory/bus_signals.h"
#include "transport/os/memory/fault_guard.h"
#include "transport/os/memory/mapping.h"
#include "transport/os/threads/signals_blocked.h"

using namespace onecopy;

namespace {

constexpr uint64_t kTrapPage = 4096;
constexpr uint64_t kCutBytes = 16 * kTrapPage;

// A mapping of a file that ends at page 8.
struct Cut {
  os::UniqueFd fd{::memfd_create("cut", MFD_CLOEXEC)};
  os::Mapping mapping;

  Cut() {
    REQUIRE(::ftruncate(fd.get(), kCutBytes) == 0);
    auto mapped = os::MapShared(fd.get(), kCutBytes);
    REQUIRE_OK(mapped);
    mapping = std::move(*mapped);
    std::memset(mapping.data(), 'x', kCutBytes);
    REQUIRE(::ftruncate(fd.get(), 8 * kTrapPage) == 0);
  }
};

bool ReadAll(const Cut& cut) {
  static thread_local std::vector<std::byte> copy;
  copy.resize(kCutBytes);
  return os::TouchForeign(cut.mapping.data(), kCutBytes,
                          [&] { std::memcpy(copy.data(), cut.mapping.data(), kCutBytes); });
}

// The status of a child that does so; a sanitizer would end it in its own way.
int StatusOf(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

void TouchOthers(const Cut& cut) {
  const volatile std::byte* const at = cut.mapping.data() + 8 * kTrapPage;
  static_cast<void>(*at);
}

void Handle(void (*handler)(int, siginfo_t*, void*), int flags = 0) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  ::sigaction(SIGBUS, &action, nullptr);
}

[[noreturn]] void EndWith7(int, siginfo_t*, void*) { ::_exit(7); }

struct sigaction predecessor {};

// As Python's faulthandler: says what it has to say, puts back who was there before, and raises the
// signal again.
void SayAndRaise(int signal, siginfo_t*, void*) {
  static_cast<void>(!::write(STDERR_FILENO, "", 0));
  ::sigaction(signal, &predecessor, nullptr);
  ::raise(signal);
}

void Returns(int, siginfo_t*, void*) {}

}  // namespace

TEST_CASE("work that touches a page that is not there is left, and the thread goes on") {
  const Cut cut;
  for (int i = 0; i < 3; ++i) CHECK_FALSE(ReadAll(cut));
  // Nothing was put in its place: what there is of the file is as it was.
  CHECK(cut.mapping.data()[8 * kTrapPage - 1] == std::byte('x'));
  bool written = true;
  std::byte* const at = cut.mapping.data() + 8 * kTrapPage;
  CHECK_FALSE(os::TouchForeign(at, kTrapPage, [&] {
    *const_cast<volatile std::byte*>(at) = std::byte(1);
    written = false;
  }));
  CHECK(written);
  CHECK(os::TouchForeign(cut.mapping.data(), 8 * kTrapPage,
                         [&] { cut.mapping.data()[0] = std::byte('y'); }));
  CHECK(cut.mapping.data()[0] == std::byte('y'));
}

TEST_CASE("the signals that a thread takes are as before, once work was left") {
  const Cut cut;
  sigset_t before;
  sigset_t after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  CHECK_FALSE(ReadAll(cut));
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < 32; ++signal) {
    CHECK(::sigismember(&before, signal) == ::sigismember(&after, signal));
  }
}

TEST_CASE("threads of the library's own are left alone by signals, and survive what they touch") {
  const Cut cut;
  bool read = true;
  bool interruptible = true;
  {
    const os::SignalsBlocked blocked;
    std::thread own([&] {
      sigset_t now;
      ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
      interruptible = ::sigismember(&now, SIGTERM) == 0 || ::sigismember(&now, SIGINT) == 0;
      read = ReadAll(cut);
    });
    own.join();
  }
  CHECK_FALSE(read);
  CHECK_FALSE(interruptible);
}

TEST_CASE("many threads may leave their work at once") {
  const Cut cut;
  std::atomic<int> left{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 100; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) left += ReadAll(cut) ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(left == 2000);
}

TEST_CASE("mappings of our own are replaced, those of others left, in one process") {
  const Cut others;
  const Cut ours;
  const auto flag = std::make_shared<std::atomic<bool>>(false);
  const os::FaultGuard guard(ours.mapping.data(), ours.mapping.bytes(), flag);
  CHECK_FALSE(ReadAll(others));
  CHECK_FALSE(*flag);
  CHECK(ReadAll(ours));
  CHECK(*flag);
  CHECK_FALSE(ReadAll(others));
}

TEST_CASE(
    "a fault that is not ours goes to the handler that was there before, or ends the process") {
  if (testing::kAddressSanitizer) ONECOPY_SKIP("a sanitizer ends the process in its own way");
  const Cut cut;
  int status = StatusOf([&] {
    static_cast<void>(ReadAll(cut));
    TouchOthers(cut);
  });
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS));
  // Of an address that another thread works on.
  status = StatusOf([&] {
    static_cast<void>(os::TouchForeign(cut.mapping.data(), kCutBytes,
                                       [&] { std::thread([&] { TouchOthers(cut); }).join(); }));
  });
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS));
  // Sent by somebody.
  status = StatusOf([&] {
    static_cast<void>(ReadAll(cut));
    ::raise(SIGBUS);
  });
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS));
}

TEST_CASE("handlers that come later get what is theirs, and do not take what is ours") {
  if (testing::kAddressSanitizer) ONECOPY_SKIP("a sanitizer ends the process in its own way");
  const Cut cut;
  int status = StatusOf([&] {
    for (int i = 0; i < 3; ++i) {
      static_cast<void>(ReadAll(cut));  // ours is there
      Handle(&EndWith7);                // and theirs is above it
      if (ReadAll(cut)) ::_exit(1);
    }
    TouchOthers(cut);
  });
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 7));
  // One that goes on to its predecessor, which is ours again: there is no circle.
  status = StatusOf([&] {
    static_cast<void>(ReadAll(cut));
    struct sigaction action {};
    action.sa_sigaction = &SayAndRaise;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigaction(SIGBUS, &action, &predecessor);
    if (ReadAll(cut)) ::_exit(1);
    TouchOthers(cut);
  });
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS));
  // One that is to be called once: the second time the process ends.
  status = StatusOf([&] {
    Handle(&Returns, static_cast<int>(SA_RESETHAND));
    if (ReadAll(cut)) ::_exit(1);
    TouchOthers(cut);
  });
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS));
}

TEST_CASE("somebody who installs a handler again and again gets what is theirs") {
  if (testing::kAddressSanitizer) ONECOPY_SKIP("a sanitizer ends the process in its own way");
  const Cut cut;
  const int status = StatusOf([&] {
    for (int i = 0; i < 100; ++i) {
      Handle(&EndWith7);
      os::StayBeforeOthers();
    }
    TouchOthers(cut);
  });
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 7));
}
