#include "health_server.hpp"

#include <httplib.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace outbox_tool {
namespace {

struct address {
  std::string host;
  int port = 0;
};

// "127.0.0.1:9464" or "[::1]:9464"
address parse(std::string const& listen) {
  auto const colon = listen.rfind(':');
  address a;
  bool fits = colon != std::string::npos && colon > 0;
  if (fits) {
    a.host = listen.substr(0, colon);
    if (a.host.size() > 2 && a.host.front() == '[' && a.host.back() == ']')
      a.host = a.host.substr(1, a.host.size() - 2);
    auto const* const first = listen.data() + colon + 1;
    auto const* const last = listen.data() + listen.size();
    auto const [end, problem] = std::from_chars(first, last, a.port);
    fits = problem == std::errc{} && end == last && a.port >= 0 && a.port <= 65535;
  }
  if (!fits) throw std::runtime_error{"http.listen is '" + listen + "': write address:port, as in 127.0.0.1:9464"};
  return a;
}

}  // namespace

struct health_server::state {
  httplib::Server server;
  std::atomic<bool> ended = false;
  int port = 0;
  std::jthread thread;
};

health_server::health_server(std::string const& listen, std::function<health_report()> ready,
                             std::function<metrics_report()> metrics)
    : state_{std::make_unique<state>()} {
  auto const to = parse(listen);
  auto& s = state_->server;
  s.new_task_queue = [] { return new httplib::ThreadPool(2); };
  s.set_payload_max_length(4096);
  s.set_read_timeout(5);
  s.set_write_timeout(5);
  // The library would let two servers share a port, and each would answer for the other.
  s.set_socket_options([](int socket) {
    int const yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  s.Get("/livez",
        [](httplib::Request const&, httplib::Response& r) { r.set_content("{\"live\":true}\n", "application/json"); });
  s.Get("/readyz", [f = std::move(ready)](httplib::Request const&, httplib::Response& r) {
    auto const h = f();
    r.status = h.good ? 200 : 503;
    r.set_content(h.json, "application/json");
  });
  s.Get("/metrics", [f = std::move(metrics)](httplib::Request const&, httplib::Response& r) {
    auto const m = f();
    r.status = m.text.empty() ? 501 : 200;
    r.set_content(m.text.empty() ? "this tool was built without prometheus-cpp\n" : m.text,
                  m.text.empty() ? "text/plain" : m.content_type.c_str());
  });
  state_->port = to.port == 0 ? s.bind_to_any_port(to.host) : (s.bind_to_port(to.host, to.port) ? to.port : -1);
  if (state_->port < 0) throw std::runtime_error{"cannot listen on " + listen + " (http.listen): is it in use?"};
  state_->thread = std::jthread{[this] {
    state_->server.listen_after_bind();
    state_->ended = true;
  }};
}

// A server that is told to stop before it listens would listen for ever.
health_server::~health_server() {
  while (!state_->server.is_running() && !state_->ended) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  state_->server.stop();
}

int health_server::port() const noexcept { return state_->port; }

}  // namespace outbox_tool
