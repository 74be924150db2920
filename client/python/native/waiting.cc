#include "client/python/native/waiting.h"

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "client/python/native/gil.h"
#include "transport/core/base/mutex.h"

namespace onecopy::python {

namespace nb = nanobind;

namespace {

// What the thread that blocks tells the one that waits for it.
class Shared {
 public:
  void Note(const TransferInfo& transfer) {
    const MutexLock lock(mutex_);
    update_ = transfer;
    changed_.NotifyAll();
  }
  void End(Result<TransferInfo> result) {
    const MutexLock lock(mutex_);
    result_ = std::move(result);
    changed_.NotifyAll();
  }
  // Until there is something to do, or it is time to look for signals. The newest update, if there
  // is one that was not taken yet, and whether the call has ended.
  std::pair<std::optional<TransferInfo>, bool> Wait() {
    const auto deadline = std::chrono::steady_clock::now() + kSignalsEvery;
    const MutexLock lock(mutex_);
    while (!update_.has_value() && !result_.has_value()) {
      if (!changed_.WaitUntil(mutex_, deadline)) break;
    }
    return {std::exchange(update_, std::nullopt), result_.has_value()};
  }
  // After the end.
  Result<TransferInfo> TakeResult() {
    const MutexLock lock(mutex_);
    return *std::move(result_);
  }

 private:
  Mutex mutex_;
  Condition changed_;
  std::optional<TransferInfo> update_ ONECOPY_GUARDED_BY(mutex_);
  std::optional<Result<TransferInfo>> result_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace

bool IsMainThread() {
  // Asked once for each thread, and again in a child, of which another one is the main thread.
  thread_local pid_t process = 0;
  thread_local bool is_main = false;
  if (const pid_t now = ::getpid(); process != now) {
    is_main = CallPython([] {
      const nb::module_ threading = nb::module_::import_("threading");
      return threading.attr("get_ident")().equal(threading.attr("main_thread")().attr("ident"));
    });
    process = now;
  }
  return is_main;
}

Result<TransferInfo> Wait(const Blocking& call, const OnUpdate& on_update,
                          const std::stop_source& stop) {
  if (!on_update && !IsMainThread()) {
    const WithoutGil released;
    return call({}, stop.get_token());
  }
  Shared shared;
  std::stop_source own = stop;  // the same state
  Client::OnUpdate note;
  if (on_update) note = [&shared](const TransferInfo& transfer) { shared.Note(transfer); };
  std::thread blocked(
      [&shared, &call, &note, token = own.get_token()] { shared.End(call(note, token)); });
  std::exception_ptr thrown;
  try {
    for (bool ended = false; !ended;) {
      std::optional<TransferInfo> update;
      {
        const WithoutGil released;
        std::tie(update, ended) = shared.Wait();
      }
      if (update.has_value()) CallPython([&] { on_update(*update); });
      if (PyErr_CheckSignals() != 0) nb::raise_python_error();
    }
  } catch (...) {
    thrown = std::current_exception();
    own.request_stop();
  }
  {
    const WithoutGil released;
    blocked.join();
  }
  if (thrown) std::rethrow_exception(thrown);
  return shared.TakeResult();
}

Result<TransferInfo> Wait(const TransferFuture& future, const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [&future] { future.Cancel(); });
  const auto wait = [&future](std::chrono::nanoseconds limit) {
    const WithoutGil released;
    return future.WaitFor(limit);
  };
  if (IsMainThread()) {
    while (!wait(kSignalsEvery)) {
      if (PyErr_CheckSignals() == 0) continue;
      nb::python_error raised;  // takes what the handler has raised
      future.Cancel();
      while (!wait(std::chrono::hours(1))) continue;  // what moves uses memory of the caller
      throw raised;
    }
  }
  const WithoutGil released;
  return future.Get();
}

Result<TransferInfo> Wait(const Begin& begin, const std::stop_token& stop) {
  TransferFuture going;
  {
    const WithoutGil released;
    ONECOPY_ASSIGN_OR_RETURN(going, begin());
    const std::stop_callback on_stop(stop, [&going] { going.Cancel(); });
    if (going.WaitFor(kSignalsEvery)) return going.Get();
  }
  return Wait(going, stop);
}

}  // namespace onecopy::python
