#include "sinks/kafka/topics.hpp"

namespace outbox::inline v0::kafka {

topics::handle topics::find(rd_kafka_t* rk, std::string const& name) {
  std::lock_guard const lock{mutex_};
  if (auto const known = by_name_.find(name); known != by_name_.end()) return known->second;
  auto* const made = rd_kafka_topic_new(rk, name.c_str(), nullptr);
  if (made == nullptr) return nullptr;
  handle h{made, &rd_kafka_topic_destroy};
  if (by_name_.size() >= most) by_name_.clear();
  by_name_.emplace(name, h);
  return h;
}

void topics::clear() {
  std::lock_guard const lock{mutex_};
  by_name_.clear();
}

}  // namespace outbox::inline v0::kafka
