#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <outbox/error.hpp>
#include <outbox/system_log.hpp>

namespace outbox::inline v0 {
namespace {

constexpr std::size_t longest_value = std::size_t{16} << 10U;
constexpr std::size_t longest_name = 64;  // journald ignores fields with longer names

int priority_of(log_level level) noexcept {
  switch (level) {
    case log_level::debug: return LOG_DEBUG;
    case log_level::info: return LOG_INFO;
    case log_level::warning: return LOG_WARNING;
    case log_level::error: return LOG_ERR;
  }
  return LOG_NOTICE;
}

bool is_capital(char c) noexcept { return c >= 'A' && c <= 'Z'; }
bool fits_a_name(char c) noexcept { return is_capital(c) || (c >= '0' && c <= '9') || c == '_'; }

std::string_view cut_off(std::string_view value) noexcept {
  if (value.size() <= longest_value) return value;
  auto end = longest_value;
  while (end > 0 && (static_cast<unsigned char>(value[end]) & 0xC0U) == 0x80U) --end;  // not within a character
  return value.substr(0, end);
}

// "NAME=value\n". With a line break in the value: "NAME\n", the length in eight bytes, the lowest first, value, "\n".
void append(std::string& entry, std::string_view name, std::string_view value) {
  value = cut_off(value);
  entry += name;
  if (value.find('\n') == std::string_view::npos) {
    entry += '=';
  } else {
    entry += '\n';
    for (std::uint64_t size = value.size(), i = 0; i < 8; ++i, size >>= 8U) entry += static_cast<char>(size & 0xFFU);
  }
  entry += value;
  entry += '\n';
}

std::string field_name(std::string_view prefix, std::string_view key) {
  std::string name{prefix};
  for (char const c : key) {
    char const large = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    name += fits_a_name(large) ? large : '_';
  }
  if (name.size() > longest_name) name.resize(longest_name);
  return name;
}

class journal {
 public:
  explicit journal(journal_options o) : options_{std::move(o)} {
    check();
    to_.sun_family = AF_UNIX;
    std::memcpy(to_.sun_path, options_.socket.data(), options_.socket.size());
    socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  }
  journal(journal const&) = delete;
  journal& operator=(journal const&) = delete;
  ~journal() {
    if (socket_ >= 0) ::close(socket_);
  }

  void write(log_line const& line) const {
    if (line.level < options_.least) return;
    auto const entry = entry_of(line);
    // The address goes with each entry, so a journald that was started again gets the next one.
    auto const sent = ::sendto(socket_, entry.data(), entry.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                               reinterpret_cast<sockaddr const*>(&to_), sizeof to_);
    if (sent == static_cast<ssize_t>(entry.size())) return;
    auto const text = options_.identifier + " " + std::string{name(line.level)} + ": " + line.text() + "\n";
    std::fwrite(text.data(), 1, text.size(), stderr);
  }

 private:
  void check() const {
    auto const& prefix = options_.prefix;
    if (options_.identifier.empty()) throw error::about(errc::invalid_option, "identifier", "must not be empty");
    if (prefix.empty() || !is_capital(prefix.front()) || !std::ranges::all_of(prefix, fits_a_name)) {
      throw error::about(errc::invalid_option, "prefix", "must be made of capitals, digits and '_', a capital first");
    }
    if (options_.socket.empty() || options_.socket.size() >= sizeof to_.sun_path) {
      throw error::about(errc::invalid_option, "socket", "must be a path of 1 to 107 bytes");
    }
  }

  [[nodiscard]] std::string entry_of(log_line const& line) const {
    std::string entry;
    append(entry, "MESSAGE", line.text());
    append(entry, "PRIORITY", std::to_string(priority_of(line.level)));
    append(entry, "SYSLOG_IDENTIFIER", options_.identifier);
    for (auto const& f : line.fields) append(entry, field_name(options_.prefix, f.key), f.value);
    return entry;
  }

  journal_options const options_;
  sockaddr_un to_{};
  int socket_ = -1;
};

// openlog(3) keeps the pointer, and other threads may be logging: no name is ever given back.
char const* kept_for_ever(std::string const& ident) {
  static std::mutex mutex;
  static auto* const all = new std::list<std::string>;
  std::lock_guard const lock{mutex};
  auto const known = std::ranges::find(*all, ident);
  return known != all->end() ? known->c_str() : all->emplace_back(ident).c_str();
}

}  // namespace

log_function log_to_journal(journal_options options) {
  return [to = std::make_shared<journal const>(std::move(options))](log_line const& line) { to->write(line); };
}

log_function log_to_syslog(std::string const& ident, log_level least) {
  if (!ident.empty()) ::openlog(kept_for_ever(ident), LOG_PID, LOG_DAEMON);
  return [least](log_line const& line) {
    if (line.level < least) return;
    auto text = std::string{line.message};
    if (!line.fields.empty()) text += " " + line.logfmt();
    ::syslog(priority_of(line.level), "%s", text.c_str());
  };
}

}  // namespace outbox::inline v0
