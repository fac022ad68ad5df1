//! The contract's scenarios, on the memory store (the rules' plainest reading) and on SQLite.

mod scenarios;
mod support;

macro_rules! scenarios {
    ($($module:ident { $($name:ident),+ $(,)? })+) => {
        mod memory {
            $(mod $module {
                $(#[tokio::test]
                async fn $name() {
                    let clock = std::sync::Arc::new(idem_core::time::ManualClock::new());
                    let store = idem_core::memory::MemoryStore::with_clock(clock.clone());
                    crate::scenarios::$module::$name(store, clock).await;
                })+
            })+
        }
        mod sqlite {
            $(mod $module {
                $(#[tokio::test]
                async fn $name() {
                    let clock = std::sync::Arc::new(idem_core::time::ManualClock::new());
                    let place = crate::support::Place::new();
                    let store = place.open_at(&clock).await;
                    crate::scenarios::$module::$name(store, clock).await;
                })+
            })+
        }
    };
}

scenarios! {
    claims {
        nothing_there_is_inserted_and_only_inserts_nothing,
        an_expired_reply_counts_as_absent,
        the_same_call_again_is_acquired_again,
        a_scheme_that_is_not_known_stops_everything,
        a_lapsed_record_that_never_began_gives_way,
        a_lapsed_record_past_its_retention_gives_way,
        another_request_under_the_key_is_a_mismatch,
        a_live_record_is_in_progress,
        a_takeover_keeps_what_the_first_claim_said,
        the_policy_decides_on_a_lapsed_record,
        a_completed_record_is_replayed,
        a_reply_is_kept_for_the_least_time_after_completion,
        a_clock_that_steps_back_frees_nothing,
    }
    verbs {
        every_verb_in_every_state,
        a_fence_has_to_fit_in_every_part,
        a_lease_is_counted_from_now_and_never_shortened,
        a_completed_record_has_dropped_what_a_resumption_needed,
    }
    traces {
        a_delayed_claim_after_expiry_does_not_revive_an_old_fence,
        a_delayed_claim_after_release_does_not_revive_an_old_fence,
        a_delayed_recovery_point_does_not_move_back,
        a_second_attempt_is_never_released,
        hold_counts_only_once_something_began,
        a_reconciler_takes_only_what_it_listed,
        a_takeover_that_is_too_late_does_not_fence_out_the_holder,
        a_late_heartbeat_does_not_bring_back_a_lease_that_was_given_up,
        losers_change_nothing,
    }
    housekeeping {
        lapsed_records_come_oldest_first_in_pages,
        a_cursor_of_another_listing_is_refused,
        a_sweep_takes_expired_replies_and_what_never_began,
        a_listing_filters_and_pages_by_scope_and_key,
        a_cursor_goes_on_in_whatever_scope_is_asked,
        the_counts_are_right,
        forgetting_a_scope_leaves_what_is_in_progress,
    }
    keys {
        keys_that_look_alike_are_different,
        scopes_that_look_alike_are_different,
        operations_are_compared_byte_for_byte,
        data_comes_back_byte_for_byte,
        durations_at_their_limits_are_kept,
    }
}
