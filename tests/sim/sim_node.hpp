// A node of the simulated cluster: a real node_core, whose loops and workers the world moves.
#pragma once

#include <list>
#include <memory>
#include <set>
#include <vector>

#include "core/node/node_core.hpp"
#include "sim/world.hpp"

namespace outbox::sim {

class sim_node {
 public:
  sim_node(world& w, int index);

  void boot();
  void kill(std::string const& why);
  void freeze(milliseconds length);
  void cut_off(milliseconds length);
  void stop();

  [[nodiscard]] bool alive() const noexcept { return core_ != nullptr; }
  [[nodiscard]] bool cut() const noexcept { return cut_; }
  [[nodiscard]] bool frozen() const noexcept { return frozen_until_ > world_.clock()->now(); }
  [[nodiscard]] std::shared_ptr<core::node_core> const& core() const noexcept { return core_; }
  [[nodiscard]] int life() const noexcept { return life_; }
  [[nodiscard]] std::string const& incarnation() const noexcept { return incarnation_; }
  void heal() noexcept { cut_ = false; }

  /// Runs `what` in this process: later if it is frozen, never if this life is over by then.
  void in_process(int life, std::function<void()> what);

  /// The same for the application, whose process may live on after its node has stopped with nothing left to do.
  void in_application(int life, std::function<void()> what);

  /// Lets every loop and worker that is idle look for something to do.
  void pump();

 private:
  /// A listener at work.
  struct call {
    core::ticket_ptr ticket;
    int epoch;
    act what;
    bool timed_out = false;
    std::optional<completion> answer{};  ///< Of an asynchronous one.
  };

  template <class Plan, class Send>
  void drive(bool& busy, instant& timer, Plan&& plan, Send&& send);
  template <class Perform, class Apply>
  void carry(bool& busy, Perform perform, Apply apply);
  // The same on a server whose statements take time. `Start` is told what to call with the reply.
  template <class Reply, class Start, class Apply>
  void carry_in_steps(bool& busy, testing::operation what, Start start, Apply apply);
  void carry_claim(std::shared_ptr<core::poll_request> const& request);
  void carry_settlement(std::shared_ptr<core::settle_request> const& request);
  void carry_renewal(std::shared_ptr<core::renew_request> const& request);
  void trace_reply(core::poll_reply const& reply);
  void trace_reply(core::settle_request const& sent, core::settle_reply const& reply);
  void apply_renewal(core::renew_request const& sent, core::renew_reply const& reply);
  void apply_settlement(core::settle_request const& sent, core::settle_reply const& reply);
  void work();
  void run_listener(core::ticket_ptr const& t);
  void end_listener(std::list<call>::iterator c);
  void answer_later(std::list<call>::iterator c);
  result behave();
  void note_timeouts();
  void end_life();
  [[nodiscard]] core::node_settings make_settings();
  void finish_stop();

  world& world_;
  int index_;
  int life_ = 0;
  std::set<int> stopped_;  ///< Lives that ended so.
  std::string incarnation_;
  std::shared_ptr<testing::faulty_store> store_;
  std::shared_ptr<core::node_core> core_;
  bool cut_ = false;
  instant frozen_until_{};
  bool polling_ = false, settling_ = false, renewing_ = false, placing_ = false, flushing_ = false, pumping_ = false;
  instant poll_timer_{}, settle_timer_{}, renew_timer_{}, place_timer_{};
  std::size_t busy_workers_ = 0;
  std::list<call> calls_;
  act acting_ = act::succeed;  ///< What the listener that is asked now will do.
  call const* asked_ = nullptr;
  std::optional<completion> taken_;  ///< By the asynchronous listener that was just called.
};

}  // namespace outbox::sim
