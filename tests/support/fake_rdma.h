// A link that carries bytes by another one, and does with its gets, and with RDMA devices that are
// none, whatever a test wants.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/core/contracts/link.h"

namespace onecopy::testing {

// What the devices of one node do; shared by the test and the link. Every hook may be called on any
// thread, and is set through Set.
class FakeNics {
 public:
  struct Hooks {
    // What registering this memory with this device comes to.
    std::function<NicRegistration(const std::string& nic, const Region&)> on_register;
    // Whether a get on that lane fails.
    std::function<Status(const LaneInfo&)> on_get;
    // Changes a message that this end sends.
    std::function<void(std::string&)> on_send;
    // Called with what a get has brought.
    std::function<void(const Span&)> on_landed;
    // The memory that the registration of this one really names.
    std::function<RegionRef(const RegionRef&)> names_instead;
    // Called with each region whose leases end.
    std::function<void(const RegionRef&)> on_end_leases;
    // How often each get of a transfer is carried out.
    int repeat = 1;
    // Gets on a lane of the caller's choice wait for Release.
    bool hold = false;
    bool hold_all = false;  // all gets, those of transfers too
    // Of the connections that were accepted, so many are gone, and their readers know nothing of
    // it.
    size_t accepted_gone = 0;
  };

  void Set(const std::function<void(Hooks&)>& change);
  Hooks hooks() const;
  // What is held goes on, and nothing is held any more.
  void Release();
  // As when a port changes: the link says so.
  void Change();

  // Gets that are held.
  size_t waiting() const;
  size_t registered() const;
  // Of the regions that were ever registered, how many are there still.
  size_t held() const;

 private:
  friend class FakeRdmaLink;
  friend class FakeRdmaConnection;

  mutable std::mutex mutex_;
  Hooks hooks_;
  struct Held {
    ChannelId channel = 0;
    Task go_on;
    Task cancel;
  };
  std::vector<Held> held_;
  std::function<void()> changed_;
  size_t registered_ = 0;
  std::vector<std::weak_ptr<Region>> regions_;
  size_t accepted_ = 0;
};

// A link of that name with devices "nic0", "nic1", … that carries by `carrier`; both ends of a
// connection have equally many, and every device reaches every other. Without devices it is what
// `carrier` is, but for what is done with gets and messages.
std::unique_ptr<Link> MakeFakeRdma(std::unique_ptr<Link> carrier, size_t nics,
                                   std::shared_ptr<FakeNics> control, std::string name = "verbs");

}  // namespace onecopy::testing
