// The current identity of this node, and its replacement while connections are open.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transport/core/base/mutex.h"
#include "transport/tls/identity.h"

namespace onecopy::tls {

// Any thread.
class Trust {
 public:
  // As Identity::Load.
  static Result<std::shared_ptr<Trust>> Open(Files files, std::string node);

  struct Current {
    std::shared_ptr<const Identity> identity;
    uint64_t generation = 0;  // another one after each change
  };
  Current Now() const;

  // A far end that was verified at an earlier generation, or longer ago than this, is verified
  // again before it is trusted further: dates pass without any change.
  static constexpr std::chrono::seconds kBelieveFor{30};

  // Reads the files again, which may block: true where they say something else, which counts from
  // now on. Where they are not right, the failure, and what counted before stays.
  Result<bool> Reload();
  // The same with files of other names.
  Result<bool> Reload(const Files& files);

 private:
  Trust(Files files, std::string node, std::shared_ptr<const Identity> identity)
      : node_(std::move(node)), files_(std::move(files)), current_{std::move(identity), 1} {}

  const std::string node_;
  Mutex reloading_;  // one at a time
  mutable Mutex mutex_;
  Files files_ ONECOPY_GUARDED_BY(reloading_);
  Current current_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::tls
