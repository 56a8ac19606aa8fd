#include "sinks/kafka/producer.hpp"

#include <outbox/error.hpp>
#include <vector>

#include "sinks/kafka/outcome.hpp"

namespace outbox::inline v0::kafka {
namespace {

constexpr int poll_ms = 100;

struct destroy_error {
  void operator()(rd_kafka_error_t* e) const noexcept { rd_kafka_error_destroy(e); }
};

struct destroy_headers {
  void operator()(rd_kafka_headers_t* h) const noexcept { rd_kafka_headers_destroy(h); }
};
using headers_handle = std::unique_ptr<rd_kafka_headers_t, destroy_headers>;

headers_handle headers_of(message const& m) {
  headers_handle all{rd_kafka_headers_new(m.headers.size())};
  for (auto const& [name, value] : m.headers) {
    rd_kafka_header_add(all.get(), name.data(), static_cast<ssize_t>(name.size()), value.data(),
                        static_cast<ssize_t>(value.size()));
  }
  return all;
}

// librdkafka reads arguments from an array of tagged values.
class arguments {
 public:
  void topic(rd_kafka_topic_t* t) { add(RD_KAFKA_VTYPE_RKT).u.rkt = t; }
  void partition(std::int32_t n) { add(RD_KAFKA_VTYPE_PARTITION).u.i32 = n; }
  void key(std::string const& bytes) { memory(RD_KAFKA_VTYPE_KEY, bytes); }
  void value(std::string const& bytes) { memory(RD_KAFKA_VTYPE_VALUE, bytes); }
  void headers(rd_kafka_headers_t* h) { add(RD_KAFKA_VTYPE_HEADERS).u.headers = h; }
  void opaque(void* p) { add(RD_KAFKA_VTYPE_OPAQUE).u.ptr = p; }
  [[nodiscard]] rd_kafka_vu_t const* data() const noexcept { return all_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }

 private:
  rd_kafka_vu_t& add(rd_kafka_vtype_t type) {
    auto& one = all_.emplace_back();
    one.vtype = type;
    return one;
  }
  void memory(rd_kafka_vtype_t type, std::string const& bytes) {
    auto& one = add(type);
    one.u.mem.ptr = const_cast<char*>(bytes.data());
    one.u.mem.size = bytes.size();
  }

  std::vector<rd_kafka_vu_t> all_;
};

}  // namespace

producer::producer(configuration c, producer_observer& observer) : observer_{observer} {
  rd_kafka_conf_set_opaque(c.get(), this);
  rd_kafka_conf_set_dr_msg_cb(c.get(), &producer::on_report);
  rd_kafka_conf_set_error_cb(c.get(), &producer::on_error);
  rd_kafka_conf_set_log_cb(c.get(), &producer::on_log);
  char problem[512];
  rk_.reset(rd_kafka_new(RD_KAFKA_PRODUCER, c.get(), problem, sizeof problem));
  if (!rk_) throw error::about(errc::invalid_option, "properties", std::string{"are refused: "} + problem);
  static_cast<void>(c.release());  // it belongs to the producer now
  rd_kafka_set_log_queue(rk_.get(), nullptr);
  thread_ = std::jthread{[this](std::stop_token const& stop) { serve(stop); }};
}

producer::~producer() {
  thread_.request_stop();
  thread_.join();
  give_up();
  while (!empty()) rd_kafka_poll(rk_.get(), poll_ms);
}

// Reports, errors and log lines all come from here, one at a time.
void producer::serve(std::stop_token const& stop) {
  while (!stop.stop_requested()) {
    rd_kafka_poll(rk_.get(), poll_ms);
    if (rd_kafka_fatal_error(rk_.get(), nullptr, 0) == RD_KAFKA_RESP_ERR_NO_ERROR) continue;
    broken_ = true;
    // Again as long as there are any: a call that saw no error yet may have brought one after the first time.
    if (!empty()) give_up();
  }
}

void producer::give_up() noexcept { rd_kafka_purge(rk_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT); }

producer::refusal producer::produce(message const& m, std::unique_ptr<pending>& p) {
  struct entrance {
    explicit entrance(std::atomic<int>& n) : calls{n} { ++calls; }
    entrance(entrance const&) = delete;
    entrance& operator=(entrance const&) = delete;
    ~entrance() { --calls; }
    std::atomic<int>& calls;
  } const inside{entering_};
  auto const topic = topics_.find(rk_.get(), m.topic);
  if (!topic) return {rd_kafka_last_error(), "librdkafka does not take the topic '" + m.topic + "'"};
  auto headers = headers_of(m);
  arguments all;
  all.topic(topic.get());
  all.partition(m.partition.value_or(RD_KAFKA_PARTITION_UA));
  if (m.key) all.key(*m.key);
  all.value(m.event.payload());
  all.headers(headers.get());
  all.opaque(p.get());
  std::unique_ptr<rd_kafka_error_t, destroy_error> const refused{rd_kafka_produceva(rk_.get(), all.data(), all.size())};
  if (refused) return {rd_kafka_error_code(refused.get()), rd_kafka_error_string(refused.get())};
  // Both belong to librdkafka until the report, which may be over already.
  static_cast<void>(headers.release());
  static_cast<void>(p.release());
  return {};
}

void producer::on_report(rd_kafka_t* /*rk*/, rd_kafka_message_t const* m, void* self) {
  std::unique_ptr<pending> const p{static_cast<pending*>(m->_private)};
  auto outcome = outcome_of(m->err, rd_kafka_message_status(m));
  auto const what = outcome.what;
  p->report(std::move(outcome));
  static_cast<producer*>(self)->observer_.reported(what);  // last: who waits for it may rely on the report
}

void producer::on_error(rd_kafka_t* rk, int code, char const* text, void* self) {
  auto what = static_cast<rd_kafka_resp_err_t>(code);
  char fatal[512];
  if (what == RD_KAFKA_RESP_ERR__FATAL) {
    what = rd_kafka_fatal_error(rk, fatal, sizeof fatal);
    text = fatal;
  }
  static_cast<producer*>(self)->observer_.troubled(what, text);
}

void producer::on_log(rd_kafka_t const* rk, int level, char const* facility, char const* text) {
  static_cast<producer*>(rd_kafka_opaque(rk))->observer_.said(level, facility, text);
}

}  // namespace outbox::inline v0::kafka
