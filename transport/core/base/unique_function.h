// std::function for callables that can only be moved (C++23 has it, C++20 does not).
#pragma once

#include <cassert>
#include <memory>
#include <type_traits>
#include <utility>

namespace onecopy {

template <typename Signature>
class UniqueFunction;

// Calling an empty one is a programming error. Not thread-safe; moved between threads freely.
template <typename R, typename... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() = default;
  UniqueFunction(std::nullptr_t) {}

  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, UniqueFunction> &&
           std::is_invocable_r_v<R, std::remove_cvref_t<F>&, Args...>) UniqueFunction(F&& callable)
      : holder_(std::make_unique<Holder<std::remove_cvref_t<F>>>(std::forward<F>(callable))) {}

  explicit operator bool() const { return holder_ != nullptr; }

  R operator()(Args... args) {
    assert(holder_ != nullptr);
    return holder_->Call(std::forward<Args>(args)...);
  }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual R Call(Args... args) = 0;
  };
  template <typename F>
  struct Holder final : Base {
    explicit Holder(F&& callable) : callable(std::move(callable)) {}
    explicit Holder(const F& callable) : callable(callable) {}
    R Call(Args... args) override { return callable(std::forward<Args>(args)...); }
    F callable;
  };

  std::unique_ptr<Base> holder_;
};

}  // namespace onecopy
