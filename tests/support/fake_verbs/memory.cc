// Registrations: which bytes a key opens, and by pages of which size a device maps them.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "tests/support/fake_verbs/state.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace onecopy::fake_verbs {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLargest = uint64_t{1} << 31;  // that the device knows

// Memory of which nothing is known: no two of its pages are neighbours.
std::vector<Segment> Scattered(uint64_t bytes) {
  std::vector<Segment> pages;
  for (uint64_t at = 0; at < bytes; at += kPage) {
    pages.push_back({uint64_t{1} << 40 | (3 * at + kPage), kPage});
  }
  return pages;
}

// The greatest power of two such that every place where it cuts the region is one where all the
// bits below are zero both for the device and on the bus.
uint64_t PageSize(const std::vector<Segment>& segments, uint64_t skip, uint64_t bytes,
                  uint64_t base) {
  uint64_t differ = 0;
  uint64_t address = base;
  uint64_t left = bytes;
  uint64_t next_bus = 0;
  for (const Segment& segment : segments) {
    if (skip >= segment.bytes) {
      skip -= segment.bytes;
      continue;
    }
    if (left == 0) break;
    const uint64_t here = std::min(segment.bytes - skip, left);
    if (segment.bus + skip != next_bus) {
      if (address != base) differ |= address;  // a new piece begins at a page's first byte
      differ |= (segment.bus + skip) ^ address;
    }
    next_bus = segment.bus + skip + here;
    address += here;
    left -= here;
    skip = 0;
  }
  // No larger than what the region crosses: one page is enough then.
  const uint64_t spans = std::bit_ceil((base ^ (base + bytes - 1)) + 1);
  const uint64_t agrees = differ == 0 ? kLargest : differ & (~differ + 1);
  return std::min({agrees, spans, kLargest});
}

ibv_mr* Refuse(int error) {
  errno = error;
  return nullptr;
}

ibv_mr* Register(ibv_pd* domain, std::byte* memory, Registration made, uint64_t layout,
                 uint64_t skip, std::unique_ptr<FakeRegion> region) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  made.device = DeviceOf(domain->context).planted.name;
  const auto known = state.layouts.find(layout);
  made.page_bytes = known == state.layouts.end()
                        ? PageSize(Scattered(skip + made.bytes), skip, made.bytes, made.base)
                        : PageSize(known->second, skip, made.bytes, made.base);
  region->memory = memory;
  region->base = made.base;
  region->access = made.access;
  region->mr.context = domain->context;
  region->mr.pd = domain;
  region->mr.addr = memory;
  region->mr.length = made.bytes;
  state.next_key += 0x100;
  region->mr.lkey = region->mr.rkey = state.next_key;
  state.registrations.push_back(std::move(made));
  ibv_mr* const result = &region->mr;
  state.regions[result->rkey] = std::move(region);
  return result;
}

bool Holds(uint64_t first, uint64_t size, uint64_t address, uint64_t bytes) {
  return address >= first && bytes <= size && address - first <= size - bytes;
}

}  // namespace

std::byte* Local(uint32_t key, uint64_t address, uint64_t bytes) {
  const auto found = TheState().regions.find(key);
  if (found == TheState().regions.end()) return nullptr;
  const FakeRegion& region = *found->second;
  if (!Holds(region.base, region.mr.length, address, bytes)) return nullptr;
  return region.memory + (address - region.base);
}

std::byte* Remote(const FakeQueuePair& owner, uint32_t key, uint64_t address, uint64_t bytes) {
  State& state = TheState();
  for (const FakeWindow* window : state.windows) {
    if (window->region == nullptr || window->window.rkey != key) continue;
    if (window->queue_pair != owner.qp.qp_num ||
        !Holds(window->address, window->bytes, address, bytes)) {
      return nullptr;
    }
    return window->region->memory + (address - window->region->base);
  }
  const auto found = state.regions.find(key);
  if (found == state.regions.end() || found->second->mr.context != owner.qp.context ||
      (found->second->access & IBV_ACCESS_REMOTE_READ) == 0) {
    return nullptr;
  }
  return Local(key, address, bytes);
}

ibv_mw* AllocateWindow(ibv_pd* domain, ibv_mw_type type) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  auto* const window = new FakeWindow;
  window->window.context = domain->context;
  window->window.pd = domain;
  window->window.type = type;
  state.next_key += 0x100;
  window->window.rkey = state.next_key;
  state.windows.insert(window);
  return &window->window;
}

int FreeWindow(ibv_mw* window) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  auto* const fake = reinterpret_cast<FakeWindow*>(window);
  state.windows.erase(fake);
  delete fake;
  return 0;
}

}  // namespace onecopy::fake_verbs

using namespace onecopy::fake_verbs;

extern "C" {

ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, size_t length, uint64_t iova,
                         unsigned int access) {
  if (((reinterpret_cast<uint64_t>(address) ^ iova) & (kPage - 1)) != 0) return Refuse(EINVAL);
  const auto first = reinterpret_cast<uint64_t>(address);
  uint64_t begin = first;
  {
    const std::lock_guard lock(TheState().mutex);
    auto known = TheState().layouts.upper_bound(first);
    if (known != TheState().layouts.begin()) {
      uint64_t bytes = 0;
      for (const Segment& segment : (--known)->second) bytes += segment.bytes;
      if (first - known->first < bytes) begin = known->first;
    }
  }
  return Register(domain, static_cast<std::byte*>(address),
                  {{}, first, length, iova, access, false, 0}, begin, first - begin,
                  std::make_unique<FakeRegion>());
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* domain, uint64_t offset, size_t length, uint64_t iova, int fd,
                          int access) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return nullptr;
  if (((offset ^ iova) & (kPage - 1)) != 0) return Refuse(EINVAL);
  {
    const std::lock_guard lock(TheState().mutex);
    const unsigned refused = DeviceOf(domain->context).planted.refuses;
    if ((static_cast<unsigned>(access) & refused) != 0) return Refuse(EOPNOTSUPP);
  }
  auto region = std::make_unique<FakeRegion>();
  const uint64_t in_page = offset & (kPage - 1);
  region->mapped_bytes = in_page + length;
  region->mapped = ::mmap(nullptr, region->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                          static_cast<off_t>(offset - in_page));
  if (region->mapped == MAP_FAILED) return nullptr;
  std::byte* const memory = static_cast<std::byte*>(region->mapped) + in_page;
  return Register(domain, memory,
                  {{}, offset, length, iova, static_cast<unsigned>(access), true, 0}, status.st_ino,
                  offset, std::move(region));
}

int ibv_dereg_mr(ibv_mr* mr) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto node = state.regions.extract(mr->rkey);
  if (!node.empty() && node.mapped()->mapped != nullptr) {
    ::munmap(node.mapped()->mapped, node.mapped()->mapped_bytes);
  }
  return 0;
}

}  // extern "C"
