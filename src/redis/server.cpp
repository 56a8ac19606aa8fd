#include "redis/server.hpp"

#include <utility>

namespace outbox::inline v0::redis {
namespace {

// A cluster that moves a slot may send a client on a few times; and each connection of the pool that leads to the old
// server says so once.
constexpr std::size_t most_moves = 5;

bool unknown_script(answer_view a) noexcept { return a.failed() && a.text().starts_with("NOSCRIPT"); }

// Since 7.0 scripts may say what they need.
bool is_modern(server_facts const& f) noexcept {
  auto const dot = f.version.find('.');
  return dot != std::string::npos && (dot > 1 || f.version[0] >= '7');
}

}  // namespace

error error_of_script(answer_view a, std::string_view doing) {
  constexpr std::string_view duplicate = "OUTBOX_DUPLICATE ";
  auto const text = a.text();
  if (!text.starts_with(duplicate)) return error_of(a, doing);
  auto const id = text.substr(duplicate.size());
  return error{errc::duplicate_event, "event id '" + std::string{id} + "' is in the outbox already"};
}

std::vector<std::string_view> script_command(script_text const& s, std::string_view prefix, arguments const& args,
                                             bool whole) {
  std::vector<std::string_view> command;
  command.reserve(args.words().size() + 4);
  command.emplace_back(whole ? "EVAL" : "EVALSHA");
  command.emplace_back(whole ? s.text : s.sha1);
  command.emplace_back("1");
  command.push_back(prefix);
  command.insert(command.end(), args.words().begin(), args.words().end());
  return command;
}

server::server(std::string const& url, std::string prefix, std::size_t connections, milliseconds timeout)
    : prefix_{std::move(prefix)},
      timeout_{timeout},
      connections_{connections},
      where_{parse_url(url)},
      pool_{[this] { return std::make_unique<own_link>(where(), timeout_); }, connections, timeout} {}

address server::where() const {
  std::lock_guard const lock{mutex_};
  return where_;
}

std::unique_ptr<link> server::connect() const { return std::make_unique<link>(where(), timeout_, timeout_); }

// A server that names another one has done nothing, so the command may be sent again.
template <class F>
answer server::on_link(F&& ask, std::string_view doing) {
  for (std::size_t moves = 0;; ++moves) {
    answer a{nullptr};
    pool_.with([&](own_link& l) {
      a = ask(l.line);
      l.elsewhere = leads_elsewhere(a);
    });
    if (!a.failed()) return a;
    auto const next = moved_to(a, where());
    if (!next || moves == most_moves + connections_) throw error_of_script(a, doing);
    std::lock_guard const lock{mutex_};
    where_ = *next;
  }
}

answer server::run(script const& s, arguments const& args, std::string_view doing, bool* sent) {
  return on_link([&](link& l) { return run_on(l, s, args, sent); }, doing);
}

answer server::run_and_wait(script const& s, arguments const& args, std::string_view doing, std::size_t replicas,
                            std::size_t& confirmed, bool* sent) {
  return on_link(
      [&](link& l) {
        auto a = run_on(l, s, args, sent);
        if (!a.failed() && replicas > 0) confirmed = wait_for_replicas(l, replicas, timeout_);
        return a;
      },
      doing);
}

// Sends its name, and its text only to a server that does not know it.
answer server::run_on(link& l, script const& s, arguments const& args, bool* sent) const {
  answer a{nullptr};
  for (bool const whole : {false, true}) {
    l.add(script_command(s.on(is_modern(l.server())), prefix_, args, whole));
    if (sent != nullptr) *sent = true;
    a = l.next();
    if (!unknown_script(a)) break;
  }
  if (sent != nullptr) *sent = !a.failed();
  return a;
}

answer server::call(arguments const& command, std::string_view doing) {
  std::vector<std::string_view> const all{command.words().begin(), command.words().end()};
  return on_link(
      [&](link& l) {
        l.add(all);
        return l.next();
      },
      doing);
}

}  // namespace outbox::inline v0::redis
