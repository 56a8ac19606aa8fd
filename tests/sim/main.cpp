// outbox_sim --seed S --seeds N [--profile usual|keyed|stepwise] [--coverage] [--plant BUG]: runs N seeds from S on.
//
// A seed draws a world of the usual modes and another one that keeps the order of keys; with --profile only one of
// them. stepwise: the world of keyed, always on a server whose statements interleave. A seed that breaks a rule prints
// itself and its trace, and the exit code is 1. With --plant the code has a bug in it, and the exit code is 0 only if
// some seed finds it. With --coverage every kind of fault must have happened.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/planted.hpp"
#include "sim/world.hpp"

namespace {

using outbox::core::planted_bug;

struct arguments {
  std::uint64_t seed = 1;
  std::uint64_t seeds = 300;
  bool coverage = false;
  std::string plant;
  std::vector<std::string> profiles{"usual", "keyed"};
};

[[noreturn]] void usage(char const* program) {
  std::fprintf(stderr, "usage: %s [--seed S] [--seeds N] [--profile usual|keyed|stepwise] [--coverage] [--plant BUG]\n",
               program);
  std::exit(2);
}

arguments parse(int argc, char** argv) {
  arguments a;
  for (int i = 1; i < argc; ++i) {
    std::string const flag = argv[i];
    if (flag == "--coverage") {
      a.coverage = true;
    } else if (flag == "--seed" && i + 1 < argc) {
      a.seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag == "--seeds" && i + 1 < argc) {
      a.seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag == "--plant" && i + 1 < argc) {
      a.plant = argv[++i];
    } else if (flag == "--profile" && i + 1 < argc) {
      a.profiles = {argv[++i]};
      if (a.profiles[0] != "usual" && a.profiles[0] != "keyed" && a.profiles[0] != "stepwise") usage(argv[0]);
    } else {
      usage(argv[0]);
    }
  }
  return a;
}

bool plant([[maybe_unused]] std::string const& name) {
#ifdef OUTBOX_PLANTED_BUGS
  static constexpr std::pair<char const*, planted_bug> bugs[] = {
      {"settle_without_token", planted_bug::settle_without_token},
      {"hot_push_before_commit", planted_bug::hot_push_before_commit},
      {"registration_ends_too_early", planted_bug::registration_ends_too_early},
      {"claim_takes_own_live_lease", planted_bug::claim_takes_own_live_lease},
      {"crashes_blamed_on_neighbours", planted_bug::crashes_blamed_on_neighbours},
      {"deferral_is_overtaken", planted_bug::deferral_is_overtaken},
      {"replay_of_a_done_row", planted_bug::replay_of_a_done_row},
      {"purge_without_status", planted_bug::purge_without_status},
      {"work_goes_on_without_the_lock", planted_bug::work_goes_on_without_the_lock},
      {"unknown_claim_never_released", planted_bug::unknown_claim_never_released},
      {"old_rows_are_not_looked_for", planted_bug::old_rows_are_not_looked_for},
      {"birth_swallows_a_claim", planted_bug::birth_swallows_a_claim},
      {"stop_forgets_open_births", planted_bug::stop_forgets_open_births},
      {"note_without_the_lock", planted_bug::note_without_the_lock},
      {"note_with_the_heads_lock", planted_bug::note_with_the_heads_lock},
      {"next_row_is_not_unblocked", planted_bug::next_row_is_not_unblocked},
      {"run_with_a_hole", planted_bug::run_with_a_hole},
      {"chain_goes_on_after_a_failure", planted_bug::chain_goes_on_after_a_failure},
      {"birth_trusts_its_token", planted_bug::birth_trusts_its_token},
      {"hook_overtakes_its_forerunner", planted_bug::hook_overtakes_its_forerunner},
      {"late_row_is_settled_first", planted_bug::late_row_is_settled_first},
  };
  for (auto const& [known, bug] : bugs) {
    if (name == known) {
      outbox::core::planted() = bug;
      return true;
    }
  }
#endif
  return false;
}

outbox::sim::outcome_of_run run(std::uint64_t seed, std::string const& kind, outbox::sim::coverage& seen) {
  outbox::core::random_source random{seed};
  auto profile = kind == "usual" ? outbox::sim::profile::draw(random) : outbox::sim::profile::draw_keyed(random);
  if (kind == "stepwise") profile.stepwise = true;
  outbox::sim::world world{random.next(), profile, seen};
  return world.run();
}

void print_trace(outbox::sim::outcome_of_run const& r, std::size_t most) {
  auto const from = r.trace.size() > most ? r.trace.size() - most : 0;
  if (from > 0) std::printf("  … %zu lines before\n", from);
  for (auto i = from; i < r.trace.size(); ++i) std::printf("  %s\n", r.trace[i].c_str());
}

bool covers_everything(outbox::sim::coverage const& seen, std::vector<std::string> const& profiles) {
  static constexpr char const* wanted[] = {"hot delivery",
                                           "cold delivery",
                                           "rollback",
                                           "savepoint rolled back",
                                           "long transaction",
                                           "written again in the same transaction",
                                           "written again, the first end unseen",
                                           "hook writes in a transaction of its own",
                                           "suspect taken by somebody else",
                                           "commit in doubt, applied",
                                           "commit in doubt or refused, undone",
                                           "kill",
                                           "freeze",
                                           "partition",
                                           "outage of the server",
                                           "dispatch lock lost",
                                           "graceful stop",
                                           "listener crash",
                                           "listener timeout",
                                           "takeover",
                                           "suspect claimed alone",
                                           "killed by crashes",
                                           "explained duplicate",
                                           "claim fails before",
                                           "claim fails after",
                                           "claim takes effect later",
                                           "claim from a floor",
                                           "settle fails before",
                                           "settle fails after",
                                           "settle takes effect later",
                                           "settle is refused",
                                           "renew fails before",
                                           "renew fails after",
                                           "renew takes effect later",
                                           "release fails before",
                                           "release fails after",
                                           "lock renewal fails before",
                                           "delivery in order",
                                           "fan_out",
                                           "fan_out repeats the rest",
                                           "asynchronous delivery",
                                           "asynchronous call abandoned",
                                           "purge",
                                           "replay",
                                           "pause"};
  static constexpr char const* of_keys[] = {"noted",
                                            "unblocked",
                                            "run taken",
                                            "chain broken",
                                            "birth behind a birth",
                                            "birth given back",
                                            "placed by question",
                                            "parked",
                                            "discarded",
                                            "cancelled out of order",
                                            "end of a transaction heard late",
                                            "second write of a transaction",
                                            "two finishers of one key",
                                            "statement waits for a row",
                                            "note leaves a row whose predecessor is locked",
                                            "place fails before"};
  std::vector<char const*> all_of_them{std::begin(wanted), std::end(wanted)};
  if (profiles != std::vector<std::string>{"usual"}) {
    all_of_them.insert(all_of_them.end(), std::begin(of_keys), std::end(of_keys));
  }
  bool all = true;
  for (auto const* what : all_of_them) {
    auto const it = seen.find(what);
    std::printf("  %8llu  %s\n", it == seen.end() ? 0ULL : static_cast<unsigned long long>(it->second), what);
    all = all && it != seen.end();
  }
  return all;
}

// Runs one world and prints what there is to say. Returns true if a rule was broken.
bool breaks(arguments const& a, std::uint64_t seed, std::string const& kind, outbox::sim::coverage& seen,
            std::uint64_t& steps) {
  auto const r = run(seed, kind, seen);
  steps += r.steps;
  if (r.ok && a.seeds == 1) print_trace(r, r.trace.size());
  if (r.ok) return false;
  auto const number = static_cast<unsigned long long>(seed);
  std::printf("seed %llu (%s) breaks %s\n", number, kind.c_str(), r.broken.c_str());
  print_trace(r, a.seeds == 1 ? r.trace.size() : 60);
  if (a.plant.empty()) {
    std::printf("again with: make sim SEED=%llu SEEDS=1 PROFILE=%s\n", number, kind.c_str());
  } else {
    std::printf("found '%s' with seed %llu\n", a.plant.c_str(), number);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  auto const a = parse(argc, argv);
  if (!a.plant.empty() && !plant(a.plant)) {
    std::fprintf(stderr, "there is no bug '%s' in this program\n", a.plant.c_str());
    return 2;
  }
  outbox::sim::coverage seen;
  std::uint64_t steps = 0;
  for (auto seed = a.seed; seed < a.seed + a.seeds; ++seed) {
    for (auto const& kind : a.profiles) {
      if (breaks(a, seed, kind, seen, steps)) return a.plant.empty() ? 1 : 0;
    }
  }
  std::printf("%llu seeds, %llu steps, no rule broken\n", static_cast<unsigned long long>(a.seeds),
              static_cast<unsigned long long>(steps));
  if (!a.plant.empty()) {
    std::printf("'%s' was not found\n", a.plant.c_str());
    return 1;
  }
  if (a.coverage && !covers_everything(seen, a.profiles)) {
    std::printf("something never happened: these seeds do not test it\n");
    return 1;
  }
  return 0;
}
