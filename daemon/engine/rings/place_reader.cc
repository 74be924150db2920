#include "daemon/engine/rings/place_reader.h"

#include <utility>

namespace onecopy::engine {

void PlaceReader::Read(const pipeline::Push& push, Done done) {
  collected_.push_back(
      {way_.from_base + push.from, way_.to_base + push.to, push.bytes,
       [connection = way_.connection, ended = way_.ended, push,
        done = std::move(done)](const ring::ErrandEnd& end) mutable {
         Task tell = [connection, done = std::move(done), status = end.status]() mutable {
           connection->executor().Post(
               [done = std::move(done), status = std::move(status)]() mutable { done(status); });
         };
         if (ended) return ended(push, end, std::move(tell));
         tell();
       }});
}

void PlaceReader::Flush() {
  if (!collected_.empty()) way_.ring.Copy(way_.way, std::exchange(collected_, {}));
}

}  // namespace onecopy::engine
