// The topics that a producer has sent to.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace outbox::inline v0::kafka {

/// Hands out topics by name. Thread-safe.
///
/// A topic that librdkafka does not know yet is looked up at once. If a message only names it, the producer asks for it
/// at its next look at all topics, which comes once a second.
class topics {
 public:
  using handle = std::shared_ptr<rd_kafka_topic_t>;

  /// Returns null if librdkafka does not take the name; rd_kafka_last_error() says why.
  [[nodiscard]] handle find(rd_kafka_t* rk, std::string const& name);

  /// Lets go of all. To be called before the producer ends.
  void clear();

 private:
  static constexpr std::size_t most = 1000;  ///< Names can come from events; beyond this the handles are made anew.

  std::mutex mutex_;
  std::unordered_map<std::string, handle> by_name_;
};

}  // namespace outbox::inline v0::kafka
