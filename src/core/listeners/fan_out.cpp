#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <outbox/error.hpp>
#include <outbox/fan_out.hpp>

#include "core/base/text.hpp"
#include "core/events/names_check.hpp"
#include "core/listeners/routes.hpp"

namespace outbox::inline v0 {
namespace {

using detail::fan_out_child;
using milliseconds = std::chrono::milliseconds;

constexpr std::size_t max_name_bytes = 128;
constexpr std::size_t max_reason_characters = 400;

// What the row remembers: a JSON object of the children that are finished, {"mail":"done","audit":"dead: no such
// user"}.
using progress_map = std::map<std::string, std::string>;

progress_map read_progress(std::string const& text) {
  auto const parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  progress_map finished;
  if (!parsed.is_object()) return finished;
  for (auto const& [name, state] : parsed.items()) {
    if (state.is_string()) finished.emplace(name, state.get<std::string>());
  }
  return finished;
}

// What became of them all.
struct combined {
  result answer = done;
  std::string progress;
};

// The names alone: what answers late must not keep the listeners alive.
using name_list = std::shared_ptr<std::vector<std::string> const>;

// The children's answers to one delivery, in whatever order they come. It may outlive the node.
class gathering {
 public:
  gathering(name_list names, std::string const& progress)
      : names_{std::move(names)}, finished_{read_progress(progress)}, answers_(names_->size()) {}

  [[nodiscard]] bool finished_before(std::size_t child) const { return finished_.contains((*names_)[child]); }

  /// What a child returned or threw: a throw beats the completion that it took.
  void returned(std::size_t child, result r) {
    std::lock_guard const lock{mutex_};
    answers_[child] = {std::move(r), false};
  }

  void will_answer(std::size_t child) {
    std::lock_guard const lock{mutex_};
    answers_[child].open = true;
  }

  /// By a completion, from any thread.
  void answered(std::size_t child, result&& r) noexcept {
    std::unique_lock lock{mutex_};
    auto& a = answers_[child];
    if (!a.open) return;
    a.open = false;
    a.result = std::move(r);
    if (!parent_) return;
    if (open()) return remember(*parent_);
    auto const parent = std::move(parent_);
    lock.unlock();
    tell(*parent);
  }

  /// Whether some child will answer later; the parent is then told when the last one has.
  [[nodiscard]] bool some_are_open() {
    std::lock_guard const lock{mutex_};
    return open();
  }
  void hand_over(std::unique_ptr<detail::answer_slot> parent) {
    std::unique_lock lock{mutex_};
    if (open()) {
      remember(*parent);
      parent_ = std::move(parent);
      return;
    }
    lock.unlock();
    tell(*parent);  // the last one answered in between
  }

  [[nodiscard]] combined combine();

  /// Which children are done or dead so far.
  [[nodiscard]] std::string progress() {
    std::lock_guard const lock{mutex_};
    return progress_so_far();
  }

 private:
  struct child_answer {
    std::optional<outbox::v0::result> result;
    bool open = false;
  };

  [[nodiscard]] bool open() const noexcept { return std::ranges::any_of(answers_, &child_answer::open); }

  [[nodiscard]] std::string progress_so_far() const {
    auto all = finished_;
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      if (answers_[i].result) note(all, (*names_)[i], answers_[i].result->value());
    }
    return nlohmann::json(all).dump();
  }

  static void note(progress_map& all, std::string const& name, result::value_type const& value) {
    if (std::holds_alternative<done_t>(value)) all[name] = "done";
    if (auto const* const d = std::get_if<dead>(&value)) {
      all[name] = "dead: " + core::scrub(d->reason, max_reason_characters);
    }
  }

  void remember(detail::answer_slot& parent) noexcept {
    try {
      parent.remember(progress_so_far());
    } catch (...) {  // NOLINT(bugprone-empty-catch): no memory; then a child may be repeated
    }
  }

  void tell(detail::answer_slot& parent) noexcept {
    try {
      auto c = combine();
      parent.answer(std::move(c.answer), std::move(c.progress));
    } catch (...) {
      parent.answer(failed{}, {});  // no memory for the reasons
    }
  }

  name_list names_;
  std::mutex mutex_;
  progress_map finished_;
  std::vector<child_answer> answers_;
  std::unique_ptr<detail::answer_slot> parent_;
};

combined gathering::combine() {
  std::string failures;
  std::optional<milliseconds> after;
  std::optional<defer> wait;
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    if (!answers_[i].result) continue;
    auto const& name = (*names_)[i];
    auto const& value = answers_[i].result->value();
    note(finished_, name, value);
    if (auto const* const later = std::get_if<defer>(&value)) {
      if (!wait || later->delay < wait->delay) wait = defer{later->delay, name + ": " + later->reason};
    } else if (auto const* const f = std::get_if<failed>(&value)) {
      failures += (failures.empty() ? "" : "; ") + name + ": " + f->reason;
      if (f->after) after = std::max(*f->after, after.value_or(milliseconds{0}));  // no child is tried too early
    }
  }
  combined c;
  std::string deaths;
  for (auto const& [name, state] : finished_) {
    if (state.starts_with("dead")) deaths += (deaths.empty() ? "" : "; ") + name + " is " + state;
  }
  if (!failures.empty()) {
    c.answer = failed{failures, after};
  } else if (wait) {
    c.answer = *wait;
  } else if (!deaths.empty()) {
    c.answer = dead{deaths};
    // What died may be repaired and replayed: then it is what must be tried again.
    std::erase_if(finished_, [](auto const& child) { return child.second.starts_with("dead"); });
  } else {
    c.answer = done;
  }
  c.progress = nlohmann::json(finished_).dump();
  return c;
}

class child_slot final : public detail::answer_slot {
 public:
  child_slot(std::shared_ptr<gathering> g, std::size_t child) : gathering_{std::move(g)}, child_{child} {}
  void answer(result&& r, std::optional<std::string>&& /*progress*/) noexcept override {
    gathering_->answered(child_, std::move(r));
  }
  void dropped() noexcept override { gathering_->answered(child_, core::dropped_completion()); }
  void remember(std::string&& /*progress*/) noexcept override {}

 private:
  std::shared_ptr<gathering> gathering_;
  std::size_t child_;
};

class child_call final : public detail::call {
 public:
  child_call(std::shared_ptr<gathering> g, std::size_t child) : gathering_{std::move(g)}, child_{child} {}
  completion answer_later() override {
    auto slot = std::make_unique<child_slot>(gathering_, child_);
    gathering_->will_answer(child_);
    return completion{std::move(slot)};
  }
  void remember(std::string /*so_far*/) override {}

 private:
  std::shared_ptr<gathering> gathering_;
  std::size_t child_;
};

class fan_out_handler final : public detail::handler {
 public:
  explicit fan_out_handler(std::vector<fan_out_child> children) : children_{std::move(children)} {
    std::vector<std::string> names;
    names.reserve(children_.size());
    for (auto const& c : children_) names.push_back(c.name);
    names_ = std::make_shared<std::vector<std::string> const>(std::move(names));
  }

  std::optional<result> handle(delivery const& d, detail::call& c) override {
    auto const g = std::make_shared<gathering>(names_, c.progress);
    bool first = true;
    for (std::size_t i = 0; i < children_.size(); ++i) {
      if (g->finished_before(i)) continue;
      if (!std::exchange(first, false)) c.remember(g->progress());
      if (d.stop.stop_requested()) {
        g->returned(i, defer{milliseconds{0}, "the node stopped before its turn"});
      } else {
        call_child(g, i, d);
      }
    }
    if (!g->some_are_open()) {
      auto all = g->combine();
      c.progress = std::move(all.progress);
      return std::move(all.answer);
    }
    auto parent = c.answer_later();
    g->hand_over(std::unique_ptr<detail::answer_slot>{static_cast<detail::answer_slot*>(parent.release())});
    return std::nullopt;
  }

  bool needs_progress() const noexcept override { return true; }

 private:
  void call_child(std::shared_ptr<gathering> const& g, std::size_t i, delivery const& d) {
    child_call call{g, i};
    try {
      if (auto r = children_[i].listener->handle(d, call)) g->returned(i, std::move(*r));
    } catch (...) {
      g->returned(i, core::result_of_current_exception());
    }
  }

  std::vector<fan_out_child> children_;
  name_list names_;
};

}  // namespace

std::unique_ptr<detail::handler> detail::make_fan_out(std::vector<fan_out_child> children) {
  auto const refuse = [](std::string const& problem) { throw error::about(errc::invalid_option, "fan_out", problem); };
  if (children.empty()) refuse("has no listener");
  std::vector<std::string_view> names;
  for (auto const& c : children) {
    if (c.name.empty()) refuse("has a listener without a name");
    if (c.name.size() > max_name_bytes)
      refuse("has a name of " + std::to_string(c.name.size()) + " bytes, the limit is 128");
    if (auto const* const problem = core::problem_of_text(c.name)) refuse(std::string{"has a name that "} + problem);
    if (!c.listener) refuse("has an empty function for the listener '" + c.name + "'");
    if (std::ranges::find(names, c.name) != names.end()) refuse("has two listeners named '" + c.name + "'");
    names.push_back(c.name);
  }
  return std::make_unique<fan_out_handler>(std::move(children));
}

}  // namespace outbox::inline v0
