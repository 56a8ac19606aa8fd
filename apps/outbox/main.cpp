// The tool `outbox`: one program, one verb per task.
#include <clocale>

#include "verbs/verbs.hpp"

int main(int argc, char** argv) {
  using namespace outbox_tool;
  // How wide a character is on a terminal. There is no other thread yet.
  std::setlocale(LC_CTYPE, "C.UTF-8");  // NOLINT(concurrency-mt-unsafe)
  command_tree tree;
  for (auto* const add :
       {add_status,  add_list,   add_show,  add_tail,         add_errors,     add_nodes,  add_doctor,  add_replay,
        add_discard, add_cancel, add_purge, add_pause,        add_resume,     add_audit,  add_migrate, add_unkey,
        add_grants,  add_bench,  add_relay, add_check_config, add_completion, add_manual, add_version}) {
    add(tree);
  }
  return tree.run(argc, argv);
}
