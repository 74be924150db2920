// What the newest version of a system's library would be asked for, done by what older ones have,
// too: the linker puts these in its place (--wrap), so that the wheel goes where they are.
#include <pthread.h>

#include <condition_variable>
#include <mutex>

// std::condition_variable::wait, which libstdc++ 12 has under a version of its own.
extern "C" void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable* condition, std::unique_lock<std::mutex>& held) {
  pthread_cond_wait(condition->native_handle(), held.mutex()->native_handle());
}
