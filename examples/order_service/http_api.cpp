#include "http_api.hpp"

#include <httplib.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <thread>

#include "requests.hpp"

namespace order_service {
namespace {

using json = nlohmann::ordered_json;

constexpr int worker_threads = 8;  // each has at most one request, and so at most one connection to the database

json body_of(order const& o) {
  return {{"id", o.id}, {"customer", o.customer}, {"cents", o.cents}, {"shipped", o.shipped}};
}

void answer(httplib::Response& r, int status, json const& body) {
  r.status = status;
  r.set_content(body.dump() + "\n", "application/json");
}

void refuse(httplib::Response& r, int status, std::string const& field, std::string const& message) {
  json what;
  if (!field.empty()) what["field"] = field;
  what["message"] = message;
  answer(r, status, {{"error", what}});
}

// Clients learn what to do next. What the database said is for the log.
void report(outbox::error const& e, httplib::Response& r) {
  if (e.code() == outbox::errc::invalid_event) return refuse(r, 422, std::string{e.field()}, e.what());
  std::fprintf(stderr, "order_service: %s\n", e.what());
  if (!e.transient() && !e.in_doubt()) return refuse(r, 500, "", "the order service failed");
  r.set_header("Retry-After", "1");
  refuse(r, 503, "",
         e.in_doubt() ? "it is unknown whether the order was placed: send it again with the same Idempotency-Key"
                      : "the database does not answer: nothing was written");
}

void report(std::exception_ptr const& problem, httplib::Response& r) {
  try {
    std::rethrow_exception(problem);
  } catch (bad_request const& e) {
    refuse(r, e.status(), e.field(), e.what());
  } catch (outbox::error const& e) {
    report(e, r);
  } catch (std::exception const& e) {
    std::fprintf(stderr, "order_service: %s\n", e.what());
    refuse(r, 500, "", "the order service failed");
  }
}

struct address {
  std::string host;
  int port = 0;
};

// "127.0.0.1:8080" or "[::1]:8080"
address parse_address(std::string const& listen) {
  auto const colon = std::min(listen.rfind(':'), listen.size());
  address a{.host = listen.substr(0, colon)};
  if (a.host.size() > 2 && a.host.front() == '[' && a.host.back() == ']') a.host = a.host.substr(1, a.host.size() - 2);
  auto const digits = listen.substr(std::min(colon + 1, listen.size()));
  auto const [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), a.port);
  if (a.host.empty() || digits.empty() || problem != std::errc{} || end != digits.data() + digits.size() ||
      a.port < 0 || a.port > 65535) {
    throw outbox::error::about(outbox::errc::invalid_option, "listen",
                               "is '" + listen + "': write address:port, as in 127.0.0.1:8080");
  }
  return a;
}

}  // namespace

struct http_api::state {
  state(order_book& b, outbox::writer w, std::function<outbox::node_health()> h,
        std::shared_ptr<outbox::prometheus::registry const> f)
      : book{b}, writer{std::move(w)}, health{std::move(h)}, figures{std::move(f)} {}

  void configure();
  void add_routes();
  void place(httplib::Request const& q, httplib::Response& r);
  void list(httplib::Request const& q, httplib::Response& r);
  void show(httplib::Request const& q, httplib::Response& r);
  void show_health(httplib::Response& r);

  order_book& book;
  outbox::writer writer;
  std::function<outbox::node_health()> health;
  std::shared_ptr<outbox::prometheus::registry const> figures;
  httplib::Server server;
  int port = 0;
  std::atomic<bool> ended = false;
  std::jthread thread;
};

void http_api::state::configure() {
  server.new_task_queue = [] { return new httplib::ThreadPool(worker_threads); };
  server.set_payload_max_length(body_limit);
  server.set_read_timeout(5);
  server.set_write_timeout(5);
  server.set_tcp_nodelay(true);  // a small answer does not wait for an acknowledgement
  server.set_keep_alive_max_count(100);
  server.set_keep_alive_timeout(1);  // a stop waits for connections that are idle, too
  // The library's own choice, SO_REUSEPORT, lets a second instance take half of the requests without a word.
  server.set_socket_options([](socket_t s) {
    int const yes = 1;
    ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_exception_handler(
      [](httplib::Request const&, httplib::Response& r, std::exception_ptr problem) { report(problem, r); });
  server.set_error_handler([](httplib::Request const&, httplib::Response& r) {
    if (!r.body.empty()) return;  // it is said already
    if (r.status == 413)
      return refuse(r, 413, "body", "body must have at most " + std::to_string(body_limit) + " bytes");
    refuse(r, r.status, "", r.status == 404 ? "there is nothing here" : "the request cannot be served");
  });
}

void http_api::state::add_routes() {
  using request = httplib::Request;
  using response = httplib::Response;
  server.Post("/orders", [this](request const& q, response& r) { place(q, r); });
  server.Get("/orders", [this](request const& q, response& r) { list(q, r); });
  server.Get(R"(/orders/(\d{1,18}))", [this](request const& q, response& r) { show(q, r); });
  server.Get("/healthz", [this](request const&, response& r) { show_health(r); });
  server.Get("/metrics",
             [this](request const&, response& r) { r.set_content(figures->text(), outbox::prometheus::content_type); });
}

void http_api::state::place(httplib::Request const& q, httplib::Response& r) {
  if (!q.get_header_value("Content-Type").starts_with("application/json")) {
    throw bad_request{415, "Content-Type", "must be application/json"};
  }
  auto wanted = parse_order(q.body);
  if (q.has_header("Idempotency-Key")) wanted.key = parse_key(q.get_header_value("Idempotency-Key"));
  auto const placed = book.place(writer, wanted);
  r.set_header("Location", "/orders/" + std::to_string(placed.value.id));
  answer(r, placed.again ? 200 : 201, body_of(placed.value));
}

void http_api::state::list(httplib::Request const& q, httplib::Response& r) {
  auto const limit = q.has_param("limit") ? parse_limit(q.get_param_value("limit")) : 20;
  auto all = json::array();
  for (auto const& o : book.newest(limit)) all.push_back(body_of(o));
  answer(r, 200, {{"orders", std::move(all)}});
}

void http_api::state::show(httplib::Request const& q, httplib::Response& r) {
  auto const found = book.find(std::stoll(q.matches[1].str()));
  if (!found) throw bad_request{404, "id", "names no order"};
  answer(r, 200, body_of(*found));
}

void http_api::state::show_health(httplib::Response& r) {
  auto const h = health();
  answer(r, h.healthy ? 200 : 503, {{"healthy", h.healthy}, {"active", h.active}, {"reason", h.reason}});
}

http_api::http_api(std::string const& listen, order_book& book, outbox::writer writer,
                   std::function<outbox::node_health()> health,
                   std::shared_ptr<outbox::prometheus::registry const> figures)
    : state_{std::make_unique<state>(book, std::move(writer), std::move(health), std::move(figures))} {
  auto const at = parse_address(listen);
  state_->configure();
  state_->add_routes();
  auto& s = state_->server;
  state_->port = at.port == 0 ? s.bind_to_any_port(at.host) : (s.bind_to_port(at.host, at.port) ? at.port : -1);
  if (state_->port < 0) {
    throw outbox::error::about(outbox::errc::invalid_option, "listen", "is '" + listen + "', which is in use");
  }
  state_->thread = std::jthread{[this] {
    state_->server.listen_after_bind();
    state_->ended = true;
  }};
}

// A server that is told to stop before it listens would listen for ever.
http_api::~http_api() {
  while (!state_->server.is_running() && !state_->ended) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  state_->server.stop();
}

int http_api::port() const noexcept { return state_->port; }

}  // namespace order_service
