// A test's hold on libonecopy_test_verbs.so (tests/rdma/lend), which lends the guest's devices what
// they lack, in this process and in those that it starts.
#pragma once

#include <filesystem>
#include <string>

#include "tests/support/guest.h"
#include "tests/support/temp_folder.h"

namespace onecopy::testing {

// One at a time; programs see what it says from the first device that they open until it goes.
// Throws where its files cannot be written.
class LentVerbs {
 public:
  LentVerbs();

  // For `ibverbs` in the section [libraries] of a configuration.
  static std::filesystem::path Library();
  // "NAME=value", for the environment of a program that is to be controlled.
  std::string Environment() const;
  // For this process itself: before the library is loaded, and once only.
  void ControlThisProcess() const;

  // Lets the dma-buf be registered, for as long as this process has it open.
  void Tell(const DmaBuf& buffer) { Tell(buffer, buffer); }
  // The same, but what is registered is the memory of another.
  void Tell(const DmaBuf& buffer, const DmaBuf& memory);
  void Forget(const DmaBuf& buffer);

  // A removed device's contexts get IBV_EVENT_DEVICE_FATAL and then EIO from every call, for good;
  // once it is back, it can be opened again.
  void Remove(const std::string& device);
  void PutBack(const std::string& device);

  // No queue pair can be made: ENOMEM.
  void SetQueuePairsUsedUp(bool used_up);
  // Devices that are opened from now on say that they have no memory windows.
  void SetNoWindows(bool none);

 private:
  void SetFile(const std::string& name, bool there);

  TempFolder folder_;
};

}  // namespace onecopy::testing
