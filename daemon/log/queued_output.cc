#include "daemon/log/queued_output.h"

#include <deque>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/log/escape.h"
#include "onecopy/reasons.h"
#include "transport/core/base/mutex.h"

namespace onecopy::log {
namespace {

// Keeps only the part of a text that will be written: else a long text might find no room here, and
// nothing of it would be written.
std::string Cut(std::string_view text, size_t most_bytes) {
  if (text.size() <= most_bytes) return std::string(text);
  const std::string end = "…[" + std::to_string(text.size()) + " bytes]";
  size_t keep = most_bytes - end.size();
  // No character in two.
  for (int i = 0; i < 3 && (static_cast<unsigned char>(text[keep]) & 0xc0U) == 0x80; ++i) --keep;
  return std::string(text.substr(0, keep)) + end;
}

// A record that owns what it says.
class Kept {
 public:
  explicit Kept(const Record& record)
      : level_(record.level), time_(record.time), message_(Cut(record.message, kMaxMessageBytes)) {
    bytes_ = sizeof(Kept) + message_.size();
    fields_.reserve(record.fields.size());
    for (const Field& field : record.fields) {
      if (field.absent) continue;
      fields_.push_back({std::string(field.name), field.value, {}});
      Own& own = fields_.back();
      if (const auto* text = std::get_if<std::string_view>(&field.value))
        own.text = Cut(*text, kMaxValueBytes);
      bytes_ += sizeof(Own) + own.name.size() + own.text.size();
    }
  }

  size_t bytes() const { return bytes_; }

  void WriteTo(Output& output) const {
    std::vector<Field> fields;
    fields.reserve(fields_.size());
    for (const Own& own : fields_) {
      Field field(own.name, own.text);
      if (!std::holds_alternative<std::string_view>(own.value)) field.value = own.value;
      fields.push_back(field);
    }
    output.Write({level_, message_, fields, time_});
  }

 private:
  struct Own {
    std::string name;
    decltype(Field::value) value;  // of a text: `text` counts
    std::string text;
  };

  Level level_;
  std::chrono::system_clock::time_point time_;
  std::string message_;
  std::vector<Own> fields_;
  size_t bytes_ = 0;
};

}  // namespace

struct QueuedOutput::Queue {
  Queue(std::shared_ptr<Output> slow, size_t most_bytes)
      : slow(std::move(slow)), most_bytes(most_bytes) {}

  // The thread's work, until the owner has gone and nothing is left.
  void Serve() {
    MutexLock lock(mutex);
    while (true) {
      while (records.empty() && told == dropped && !ending) arrived.Wait(mutex);
      if (records.empty() && told == dropped) return;
      // What was dropped came after what waits here.
      const std::deque<Kept> batch = std::exchange(records, {});
      const uint64_t lost = dropped - told;
      lock.Unlock();
      size_t freed = 0;
      for (const Kept& record : batch) {
        record.WriteTo(*slow);
        freed += record.bytes();
      }
      if (lost > 0) Tell(lost);
      lock.Lock();
      bytes -= freed;
      written += batch.size();
      told += lost;
      moved.NotifyAll();
    }
  }

  void Tell(uint64_t lost) const {
    const std::initializer_list<Field> fields = {{"records", lost}};
    slow->Write({Level::kWarning,
                 "records were dropped here: the reader of the log did not keep up",
                 {fields.begin(), fields.size()}});
  }

  const std::shared_ptr<Output> slow;
  const size_t most_bytes;
  Mutex mutex;
  Condition arrived;
  Condition moved;
  std::deque<Kept> records ONECOPY_GUARDED_BY(mutex);
  // Of records that wait or are being written.
  size_t bytes ONECOPY_GUARDED_BY(mutex) = 0;
  uint64_t taken ONECOPY_GUARDED_BY(mutex) = 0;    // records that were let in, …
  uint64_t written ONECOPY_GUARDED_BY(mutex) = 0;  // … and of those the ones that are out
  uint64_t dropped ONECOPY_GUARDED_BY(mutex) = 0;
  // Of those that were dropped, of how many the output has been told.
  uint64_t told ONECOPY_GUARDED_BY(mutex) = 0;
  bool ending ONECOPY_GUARDED_BY(mutex) = false;
};

QueuedOutput::QueuedOutput(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}

QueuedOutput::~QueuedOutput() {
  const MutexLock lock(queue_->mutex);
  queue_->ending = true;
  queue_->arrived.NotifyOne();
}

Result<std::shared_ptr<QueuedOutput>> QueuedOutput::Start(std::shared_ptr<Output> slow,
                                                          size_t most_bytes) {
  auto queue = std::make_shared<Queue>(std::move(slow), most_bytes);
  try {
    std::thread([queue] { queue->Serve(); }).detach();
  } catch (const std::system_error& error) {
    return Status(Code::kResourceExhausted, reasons::kNoMemory,
                  std::string("the log's thread cannot be started: ") + error.what(),
                  "raise the limit on processes and threads (ulimit -u, TasksMax=)");
  }
  return std::shared_ptr<QueuedOutput>(new QueuedOutput(std::move(queue)));
}

void QueuedOutput::Write(const Record& record) {
  Kept kept(record);
  const bool urgent = record.level >= Level::kWarning;
  const size_t room = urgent ? queue_->most_bytes : queue_->most_bytes / 4 * 3;
  const MutexLock lock(queue_->mutex);
  if (queue_->bytes + kept.bytes() > room) {
    ++queue_->dropped;
  } else {
    queue_->bytes += kept.bytes();
    ++queue_->taken;
    queue_->records.push_back(std::move(kept));
  }
  queue_->arrived.NotifyOne();
}

bool QueuedOutput::Flush(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const MutexLock lock(queue_->mutex);
  const uint64_t taken = queue_->taken;
  const uint64_t dropped = queue_->dropped;
  const auto out = [&]() ONECOPY_REQUIRES(queue_->mutex) {
    return queue_->written >= taken && queue_->told >= dropped;
  };
  while (!out()) {
    if (!queue_->moved.WaitUntil(queue_->mutex, deadline)) return out();
  }
  return true;
}

uint64_t QueuedOutput::dropped() const {
  const MutexLock lock(queue_->mutex);
  return queue_->dropped;
}

}  // namespace onecopy::log
