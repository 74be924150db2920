// What NIXL's core and a plug-in for it know of each other's memory: the order of an engine's
// virtual functions, and the layouts of the values that pass between them. NIXL's wheels bring no
// headers; these are the facts of those in KnownVersions (versions.h), under names of our own, and
// tests/python/nixl_layout proves them against every such wheel. Both sides must use libstdc++ with
// the C++11 ABI.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace onecopy::nixl::abi {

// The version of the entry structure, Plugin; it says nothing of the engine's.
inline constexpr int kPluginApi = 1;

enum class Segment : uint32_t { kDram = 0, kVram = 1 };
enum class Operation : uint32_t { kRead = 0, kWrite = 1 };

enum class Outcome : int32_t {
  kInProgress = 1,
  kSuccess = 0,
  kNotPosted = -1,
  kBadArgument = -2,
  kBackend = -3,
  kNotFound = -4,
  kMismatch = -5,
  kNotAllowed = -6,
  kStillActive = -7,
  kUnknown = -8,
  kNotSupported = -9,
  kRemoteDisconnected = -10,
  kCancelled = -11,
};

using Parameters = std::unordered_map<std::string, std::string>;
using Segments = std::vector<Segment>;
// Agent, and what it said.
using Notifications = std::vector<std::pair<std::string, std::string>>;

// The core hands these back as it got them and never looks inside.
class Metadata;
class Request;

struct Descriptor {
  uintptr_t address;
  size_t bytes;
  uint64_t device;
};

struct RegisteredDescriptor : Descriptor {
  std::string blob;  // of a remote one: what its agent's PublicData said
};

struct TransferDescriptor : Descriptor {
  Metadata* metadata;
};

// Given by the core, whose virtual functions of it are none of ours.
template <typename T>
struct DescriptorList {
  const void* virtual_table = nullptr;
  Segment segment = Segment::kDram;
  std::vector<T> items;
};
using TransferList = DescriptorList<TransferDescriptor>;

struct Options {
  std::string notification;
  bool has_notification;
  std::string custom;
};

struct InitParameters {
  std::string agent;
  std::string type;
  const Parameters* parameters = nullptr;
  bool progress_thread = false;
  uint64_t progress_delay_us = 0;
  int32_t thread_sync = 0;
  bool telemetry = false;
};

// The base of an engine. The core reads the first members itself, through functions that were
// inlined into it, so all of them stand here; and it calls the virtual functions by their place.
class Engine {
 public:
  explicit Engine(const InitParameters& init);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine();

  virtual bool SupportsRemote() const = 0;
  virtual bool SupportsLocal() const = 0;
  virtual bool SupportsNotifications() const = 0;
  virtual Segments SupportedSegments() const = 0;
  virtual Outcome Register(const RegisteredDescriptor& memory, const Segment& segment,
                           Metadata*& out) = 0;
  virtual Outcome Deregister(Metadata* metadata) = 0;
  virtual Outcome Connect(const std::string& agent) = 0;
  virtual Outcome Disconnect(const std::string& agent) = 0;
  virtual Outcome Unload(Metadata* metadata) = 0;
  virtual Outcome Prepare(const Operation& operation, const TransferList& local,
                          const TransferList& remote, const std::string& agent, Request*& out,
                          const Options* options) const = 0;
  virtual Outcome Post(const Operation& operation, const TransferList& local,
                       const TransferList& remote, const std::string& agent, Request*& request,
                       const Options* options) const = 0;
  virtual Outcome Check(Request* request) const = 0;
  virtual Outcome Release(Request* request) const = 0;
  // Views of memory for kernels, which this engine has none of: three places in the table.
  virtual Outcome PrepareRemoteView(const void* descriptors, void*& view,
                                    const Options* options) const;
  virtual Outcome PrepareLocalView(const void* descriptors, void*& view,
                                   const Options* options) const;
  virtual void ReleaseView(void* view) const;
  virtual Outcome PublicData(const Metadata* metadata, std::string& out) const = 0;
  virtual Outcome ConnectionInfo(std::string& out) const = 0;
  virtual Outcome LoadConnectionInfo(const std::string& agent, const std::string& info) = 0;
  virtual Outcome LoadRemote(const RegisteredDescriptor& memory, const Segment& segment,
                             const std::string& agent, Metadata*& out) = 0;
  virtual Outcome LoadLocal(Metadata* local, Metadata*& out) = 0;
  virtual Outcome TakeNotifications(Notifications& out) = 0;
  virtual Outcome Notify(const std::string& agent, const std::string& message) const = 0;
  // Questions about files and about costs, which this engine does not answer.
  virtual Outcome QueryMemory(const void* descriptors, void* out) const;
  virtual Outcome EstimateCost(const Operation& operation, const TransferList& local,
                               const TransferList& remote, const std::string& agent,
                               Request* const& request, std::chrono::microseconds& duration,
                               std::chrono::microseconds& margin, int32_t& method,
                               const void* options) const;

 protected:
  const std::string& agent() const { return agent_; }
  const Parameters& parameters() const { return parameters_; }

 private:
  std::string type_;
  Parameters parameters_;
  // Always empty here, so the element, which changed from version to version, does not matter.
  std::vector<uint64_t> telemetry_events_;
  std::mutex telemetry_mutex_;
  bool init_failed_ = false;
  const std::string agent_;
  const bool telemetry_;
};

// What nixl_plugin_init returns.
struct Plugin {
  int api;
  Engine* (*create)(const InitParameters* init);  // null: failed
  void (*destroy)(Engine* engine);
  const char* (*name)();
  const char* (*version)();
  Parameters (*options)();
  Segments (*segments)();
};

}  // namespace onecopy::nixl::abi
