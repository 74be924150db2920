// Memory that lives long, of which every ring of a store is told.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/core/base/mutex.h"
#include "transport/core/contracts/region.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::posix {

class RegisteredMemory;

// Any thread.
class HeldMemory : public std::enable_shared_from_this<HeldMemory> {
 public:
  // From now on, until the region goes. One that is known already, or has no address, is nothing
  // new.
  void Add(const RegionRef& memory);

  // Tells `ring`, on its loop, of what there is, what comes, and that something has gone. It leaves
  // before its loop goes.
  void Join(os::EventLoop& loop, const std::shared_ptr<RegisteredMemory>& ring);
  void Leave(const RegisteredMemory* ring);

  // What rings say: so many bytes more, or fewer, are registered; the kernel has refused some.
  void Registered(int64_t bytes);
  void Refused(const std::string& why);

  // For people: how much memory is registered, and why the rest is not. Nothing where there is none
  // to be registered.
  std::map<std::string, std::string> Describe() const;

 private:
  struct Ring {
    os::EventLoop* loop = nullptr;
    const RegisteredMemory* key = nullptr;
    std::weak_ptr<RegisteredMemory> memory;
  };
  void Gone();

  mutable Mutex mutex_;
  std::vector<std::weak_ptr<Region>> regions_ ONECOPY_GUARDED_BY(mutex_);
  std::list<Ring> rings_ ONECOPY_GUARDED_BY(mutex_);
  int64_t bytes_ ONECOPY_GUARDED_BY(mutex_) = 0;
  std::string refused_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::posix
