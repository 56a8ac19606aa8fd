// A receiver of webhooks for tests. It misbehaves as the path of a request says, and remembers what it was sent.
//
// usage: webhook_server [certificate key]
// It writes its port to standard output and then answers commands that it reads, one per line. It ends with its input.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

struct request {
  std::string method, target, body;
  std::vector<std::pair<std::string, std::string>> headers;

  [[nodiscard]] std::string header(std::string const& name) const {
    for (auto const& [n, v] : headers) {
      if (std::ranges::equal(n, name, [](char a, char b) { return std::tolower(a) == std::tolower(b); })) return v;
    }
    return {};
  }
};

struct memory {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<request> all;
  std::map<std::string, int> seen;  // by webhook-id
  int connections = 0, now = 0, most = 0, held = 0;
  bool released = false;
} remembered;

class connection {
 public:
  connection(int fd, SSL_CTX* tls) : fd_{fd} {
    if (tls == nullptr) return;
    ssl_ = SSL_new(tls);
    SSL_set_fd(ssl_, fd_);
    open_ = SSL_accept(ssl_) == 1;
  }
  connection(connection const&) = delete;
  connection& operator=(connection const&) = delete;
  ~connection() {
    SSL_free(ssl_);
    ::close(fd_);
  }
  [[nodiscard]] bool is_open() const { return open_; }

  // Appends to `into`. Returns false at the end.
  bool read(std::string& into) {
    char some[16384];
    auto const n = ssl_ != nullptr ? SSL_read(ssl_, some, sizeof some) : ::recv(fd_, some, sizeof some, 0);
    if (n > 0) into.append(some, static_cast<std::size_t>(n));
    return n > 0;
  }
  bool write(std::string const& text) {
    for (std::size_t at = 0; at < text.size();) {
      auto const n = ssl_ != nullptr ? SSL_write(ssl_, text.data() + at, static_cast<int>(text.size() - at))
                                     : ::send(fd_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return false;
      at += static_cast<std::size_t>(n);
    }
    return true;
  }

 private:
  int fd_;
  SSL* ssl_ = nullptr;
  bool open_ = true;
};

std::string trimmed(std::string const& text) {
  auto const first = text.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Reads one request; `rest` has what was read beyond it. Returns false if the client has gone.
bool read_request(connection& c, std::string& rest, request& r) {
  std::size_t end = 0;
  while ((end = rest.find("\r\n\r\n")) == std::string::npos) {
    if (!c.read(rest)) return false;
    if (std::isalpha(static_cast<unsigned char>(rest[0])) == 0) return c.write("HTTP/1.1 400 x\r\n\r\n"), false;
  }
  std::size_t at = rest.find("\r\n");
  auto const first = rest.substr(0, at);
  r.method = first.substr(0, first.find(' '));
  r.target = first.substr(r.method.size() + 1, first.rfind(' ') - r.method.size() - 1);
  while (at < end) {
    auto const next = rest.find("\r\n", at + 2);
    auto const line = rest.substr(at + 2, next - at - 2);
    auto const colon = line.find(':');
    r.headers.emplace_back(line.substr(0, colon), trimmed(line.substr(colon + 1)));
    at = next;
  }
  auto const length = r.header("content-length");
  std::size_t const size = length.empty() ? 0 : std::stoul(length);
  rest.erase(0, end + 4);
  while (rest.size() < size) {
    if (!c.read(rest)) return false;
  }
  r.body = rest.substr(0, size);
  rest.erase(0, size);
  return true;
}

std::string answer(int status, std::string const& more = {}) {
  return "HTTP/1.1 " + std::to_string(status) + " x\r\ncontent-length: 2\r\n" + more + "\r\nhi";
}

void wait_for_release() {
  std::unique_lock lock{remembered.mutex};
  ++remembered.held;
  remembered.changed.wait(lock, [] { return remembered.released; });
  --remembered.held;
}

void wait_for_the_end(connection& c) {
  std::string ignored;
  while (c.read(ignored)) ignored.clear();
}

// "/status/503?Thu,+01+Jan+2032+00:00:00+GMT": the query is the value of Retry-After.
std::string with_status(std::string target) {
  auto const question = target.find('?');
  std::string wish = question == std::string::npos ? "" : target.substr(question + 1);
  std::ranges::replace(wish, '+', ' ');
  return answer(std::stoi(target.substr(8)), wish.empty() ? "" : "Retry-After: " + wish + "\r\n");
}

// Returns false if the connection is to be closed.
bool serve(connection& c, request const& r, int times) {
  auto const& t = r.target;
  if (t.starts_with("/status/")) return c.write(with_status(t));
  if (t.starts_with("/redirect")) return c.write(answer(302, "Location: /ok\r\n"));
  if (t.starts_with("/fail-first/")) return c.write(answer(times <= std::stoi(t.substr(12)) ? 500 : 200));
  if (t.starts_with("/interim")) return c.write("HTTP/1.1 103 x\r\nRetry-After: 5\r\n\r\n" + answer(200));
  if (t.starts_with("/hang")) return wait_for_the_end(c), false;
  if (t.starts_with("/close")) return false;
  if (t.starts_with("/half-header")) return c.write("HTTP/1.1 200 OK\r\nContent-Len"), false;
  if (t.starts_with("/half-body")) return c.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n12345"), false;
  if (t.starts_with("/endless")) {
    c.write("HTTP/1.1 200 OK\r\n\r\n");
    while (c.write(std::string(10'000, 'x'))) {
    }
    return false;
  }
  if (t.starts_with("/held")) wait_for_release();
  return c.write(answer(t.starts_with("/held/") ? std::stoi(t.substr(6)) : 200));
}

void converse(int fd, SSL_CTX* tls) {
  connection c{fd, tls};
  if (!c.is_open()) return;
  std::string rest;
  while (true) {
    request r;
    if (!read_request(c, rest, r)) return;
    int times = 0;
    {
      std::lock_guard const lock{remembered.mutex};
      remembered.all.push_back(r);
      times = ++remembered.seen[r.header("webhook-id")];
      remembered.most = std::max(remembered.most, ++remembered.now);
    }
    bool const go_on = serve(c, r, times);
    std::lock_guard const lock{remembered.mutex};
    --remembered.now;
    if (!go_on) return;
  }
}

std::string hex(std::string const& bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (char const c : bytes) {
    auto const u = static_cast<unsigned char>(c);
    out += digits[u >> 4U];
    out += digits[u & 15U];
  }
  return out;
}

std::string obey(std::string const& command) {
  std::lock_guard const lock{remembered.mutex};
  if (command == "release") {
    remembered.released = true;
    remembered.changed.notify_all();
    return "ok";
  }
  if (command == "stats") {
    return nlohmann::json{{"connections", remembered.connections},
                          {"requests", remembered.all.size()},
                          {"most", remembered.most},
                          {"held", remembered.held}}
        .dump();
  }
  auto const& r = remembered.all.at(std::stoul(command.substr(8)));  // "request 0"
  nlohmann::json headers = nlohmann::json::object();
  for (auto const& [name, value] : r.headers) headers[name] = hex(value);
  return nlohmann::json{{"method", r.method}, {"target", r.target}, {"headers", headers}, {"body", hex(r.body)}}.dump();
}

SSL_CTX* tls_of(char const* certificate, char const* key) {
  auto* const tls = SSL_CTX_new(TLS_server_method());
  bool const ok = SSL_CTX_use_certificate_chain_file(tls, certificate) == 1 &&
                  SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) == 1;
  return ok ? tls : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  SSL_CTX* const tls = argc == 3 ? tls_of(argv[1], argv[2]) : nullptr;
  if (argc == 3 && tls == nullptr) return 1;
  int const listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ::sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  ::socklen_t size = sizeof a;
  if (::bind(listener, reinterpret_cast<::sockaddr*>(&a), sizeof a) != 0 || ::listen(listener, 128) != 0 ||
      ::getsockname(listener, reinterpret_cast<::sockaddr*>(&a), &size) != 0) {
    return 1;
  }
  std::cout << ::ntohs(a.sin_port) << std::endl;
  std::thread{[&] {
    while (true) {
      int const fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      {
        std::lock_guard const lock{remembered.mutex};
        ++remembered.connections;
      }
      std::thread{converse, fd, tls}.detach();
    }
  }}.detach();
  for (std::string line; std::getline(std::cin, line);) std::cout << obey(line) << std::endl;
  ::_exit(0);
}
