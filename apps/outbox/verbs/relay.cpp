// `outbox relay` and `outbox check-config`.
#include "relay.hpp"

#include <cstdlib>
#include <memory>

#include "cli/tool_error.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

struct config_options {
  std::string file;
  bool dry_run = false;

  void add_to(CLI::App& verb) {
    verb.add_option("--config,config", file, "the configuration, a TOML file; or the variable OUTBOX_CONFIG")
        ->type_name("FILE");
  }
  [[nodiscard]] std::string path() const {
    char const* const given = std::getenv("OUTBOX_CONFIG");  // NOLINT(concurrency-mt-unsafe): nothing changes it
    if (!file.empty()) return file;
    if (given == nullptr) refuse("which configuration? Name it with --config or OUTBOX_CONFIG");
    return given;
  }
};

}  // namespace

void add_relay(command_tree& tree) {
  auto const o = std::make_shared<config_options>();
  auto& verb = tree.add(
      "relay",
      {.summary = "publish the events of tables until a signal ends it",
       .details = "SIGTERM and SIGINT end it when what it has begun is finished; a second one ends it at once. SIGHUP "
                  "reads the configuration again: if anything is wrong with it, nothing changes. It serves /livez, "
                  "/readyz and /metrics where http.listen says.",
       .examples = {{"outbox relay --config /etc/outbox/relay.toml", "run it"},
                    {"outbox relay --config relay.toml --dry-run", "where would the events go that wait?"}}},
      [o] { return o->dry_run ? preview_relay(o->path()) : run_relay(o->path()); });
  o->add_to(verb);
  verb.add_flag("--dry-run", o->dry_run, "show where waiting events would go, and change nothing");
}

void add_check_config(command_tree& tree) {
  auto const o = std::make_shared<config_options>();
  auto& verb = tree.add("check-config",
                        {.summary = "say whether a configuration is right, and what it says",
                         .details = "Prints every setting, without secrets; or everything that is wrong, with file and "
                                    "line. Opens nothing.",
                         .examples = {{"outbox check-config relay.toml", "before a reload"}},
                         .status = "0 it is right; 2 it is not."},
                        [o] { return check_config(o->path()); });
  o->add_to(verb);
}

}  // namespace outbox_tool
