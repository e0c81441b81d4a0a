//! The list of all cases.

use super::Case;

/// Hands the list of all cases to a macro, behind what is given for it.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_cases {
    ($macro:path $(, $given:path)?) => { $macro! {
    $($given;)?
    candidate {
        a_detail_is_wanted_once_per_version,
        a_detail_that_is_not_newer_replaces_nothing,
        a_bad_id_is_left_alone_for_longer_each_time,
        a_split_puts_narrower_slices_in_the_place_of_one,
        a_split_under_a_lost_lease_changes_nothing,
    }
    load {
        what_waits_and_what_is_held_is_counted_by_partition,
        how_far_cursors_have_come_is_told_until_they_are_forgotten,
        partitions_with_a_schedule_are_named,
    }
    ahead {
        for_each_part_it_is_told_when_it_may_find_something,
    }
    registry {
        applying_creates_changes_or_leaves_alone,
        applying_replaces_the_endpoints,
        the_registry_holds_a_manifest_section_by_section,
        what_no_manifest_can_hold_is_refused,
        a_removed_provenance_leaves_what_was_planned,
        a_schedule_that_is_made_again_does_not_wait_for_the_old_ones_trigger,
        the_dictionary_says_what_it_was_told_last,
        a_schedule_keeps_its_due_time_until_its_interval_changes,
        firing_twice_under_one_public_id_is_one_trigger,
        a_due_schedule_fires_once_after_a_long_pause_and_keeps_step,
        a_schedule_does_not_pile_up_on_a_trigger_that_waits,
        due_schedules_fire_oldest_first_up_to_the_limit,
        without_a_schedule_nothing_is_due,
    }
    trigger {
        the_oldest_trigger_is_taken_first_and_never_twice,
        an_expired_trigger_is_taken_again_under_a_higher_fence,
        expiry_alone_fences_nobody,
        settling_ends_a_trigger_with_its_reason,
        a_deferred_trigger_comes_back_after_its_delay,
        a_foreign_fence_settles_nothing,
    }
    fan {
        a_trigger_becomes_one_trigger_per_partition,
        a_fan_out_goes_on_where_it_stopped_and_makes_nothing_twice,
        only_the_holder_of_a_trigger_makes_its_children,
        more_partitions_than_allowed_are_refused_and_none_of_them_made,
        a_trigger_without_a_partition_says_so,
        a_trigger_waits_while_too_many_of_its_children_do,
        what_belongs_to_a_full_inventory_is_left_where_it_is,
        a_schedule_does_not_pile_up_on_partitions_that_wait,
        progress_sums_up_a_trigger_and_all_its_partitions,
        parents_are_read_by_key_with_the_partition_they_come_from,
        params_that_are_no_json_are_refused,
        a_task_names_the_credential_that_it_uses,
    }
    plan {
        a_namespace_without_a_plan_is_empty,
        a_plan_covers_its_windows_in_order,
        a_task_carries_what_its_slice_says,
        tasks_under_way_and_done_are_covered_failed_ones_are_not,
        only_what_lies_beyond_the_cursor_is_covered,
        namespaces_do_not_see_each_other,
        a_plan_made_from_an_older_epoch_is_a_conflict,
        a_planner_that_lost_its_trigger_saves_nothing,
        a_plan_repeated_after_a_lost_answer_is_not_written_twice,
        a_task_that_exists_is_not_derived_again,
        a_partial_plan_is_continued_to_its_end,
        what_is_left_of_a_plan_lies_behind_its_last_slice,
        only_a_partial_plan_of_this_trigger_is_continued,
        a_plan_without_slices_ends_its_trigger,
        a_snapshot_is_stored_once_under_its_hash,
        text_that_is_no_json_is_refused,
    }
    queue {
        tasks_are_claimed_by_priority_then_time_then_id,
        a_claim_takes_no_more_than_its_limit_and_nothing_twice,
        a_claimed_task_is_dispatched_under_its_owner,
        a_task_is_not_claimed_before_its_time,
        fence_and_attempts_rise_with_every_claim,
        renewing_extends_only_what_one_holds,
        an_expired_lease_cannot_be_renewed,
        an_ended_task_cannot_be_renewed,
    }
    sweep {
        only_expired_leases_are_taken_back,
        at_the_start_of_the_only_process_everyone_is_dead,
        the_triggers_of_dead_planners_are_free_again,
        a_task_that_keeps_dying_fails,
        the_orphan_run_fails_with_its_reason,
        a_task_that_finished_meanwhile_stays_finished,
        a_renewed_lease_is_left_alone,
        many_live_leases_do_not_hide_one_dead_one,
        a_sweep_stops_at_its_limit_and_goes_on_the_next_time,
        the_dead_cannot_write_any_more,
    }
    run {
        a_run_opens_once_per_lease,
        only_the_holder_of_the_lease_opens_a_run,
        a_task_starts_only_once,
        a_run_resumes_after_the_last_committed_page_of_any_run,
        a_run_after_the_last_page_has_nothing_left_to_read,
        a_place_is_read_back_as_it_was_written,
    }
    end {
        success_closes_run_and_task,
        a_partial_or_failed_end_keeps_its_error,
        counted_requeues_fail_the_task_in_the_end,
        a_page_in_between_starts_the_count_anew,
        a_deferral_gives_the_attempt_back,
        a_requeued_task_waits_for_its_delay,
        ending_twice_answers_the_present_status,
        a_run_closed_by_the_sweep_stays_as_the_sweep_left_it,
        only_the_holder_of_the_lease_ends_a_run,
        a_page_that_failed_is_in_the_ledger,
        a_failure_row_never_stands_in_the_way_of_the_end,
    }
    commit {
        a_page_becomes_a_ledger_row_and_items,
        newer_replaces_equal_and_older_are_skipped,
        at_equal_times_the_sources_version_decides,
        a_bad_record_is_kept_aside_and_holds_nothing_up,
        a_repeated_page_answers_the_old_numbers,
        a_token_is_read_once_per_run,
        pages_are_committed_together_or_not_at_all,
        a_page_needs_a_running_run_under_its_lease,
        a_page_is_progress,
        a_page_of_more_rows_than_a_statement_takes_is_stored_whole,
        an_item_is_known_by_project_source_scope_and_key,
    }
    cursor {
        only_the_unbroken_prefix_counts,
        a_failed_window_stops_the_prefix,
        a_window_that_reaches_back_over_an_open_one_counts,
        the_value_follows_its_event_and_only_forward,
        recording_twice_writes_one_event,
        an_event_says_where_it_comes_from,
        backfill_and_update_do_not_move_the_harvest,
    }
    fair {
        partitions_take_turns_however_long_one_has_waited,
        operations_of_an_endpoint_and_endpoints_of_two_sources_are_partitions,
        priority_goes_before_turns,
        a_partition_holds_no_more_than_it_may,
        a_cap_lowers_what_a_partition_may_and_never_raises_it,
        each_task_keeps_to_its_own_limit,
        upside_down_the_last_priority_is_first,
        upside_down_a_full_partition_serves_its_last,
        what_waits_for_its_time_stands_in_nobodys_way,
    }
    coverage {
        a_window_read_in_ranges_is_complete_when_all_of_them_are,
        a_window_with_one_failed_range_is_read_again_as_a_whole,
        a_part_that_was_done_counts_when_its_task_ends_short,
        a_part_of_a_task_that_goes_on_does_not_count_yet_and_is_kept,
        what_replaces_a_task_joins_the_part_that_it_has_done,
        a_window_that_is_replaced_by_ranges_of_itself_is_complete_with_them,
        a_backfill_is_complete_downwards_from_its_upper_end,
        a_backfill_value_falls_and_never_rises,
        a_backfill_leaves_the_harvest_where_it_is,
        a_backfill_keeps_to_the_same_keys_and_versions,
        a_cursor_is_known_by_its_namespace_not_by_its_endpoint,
        a_backfill_in_parts_goes_on_below_its_last_slice,
        a_backfill_begins_where_the_harvest_has_come_to,
        activities_are_namespaces_of_their_own,
        history_tells_what_the_last_windows_brought,
        the_items_of_all_runs_of_a_task_add_up,
        a_cursor_says_where_its_value_comes_from,
    }
    segment {
        segments_count_in_their_order_and_without_a_hole,
        the_value_of_an_id_cursor_is_its_last_id_and_goes_by_its_number,
        only_the_newest_plan_of_segments_counts,
        a_plan_whose_numbers_another_has_taken_between_counts_on,
        a_plan_of_segments_has_no_window_and_goes_on_behind_its_last_id,
        refreshing_does_not_move_the_harvest,
        wanted_records_are_cut_into_ranges_of_keys,
        only_the_records_of_the_stream_are_wanted,
        what_was_looked_at_or_mapped_anew_is_wanted_no_more,
        what_is_signalled_is_wanted_stored_or_not,
    }
    refresh {
        a_refresh_replaces_what_is_as_new_and_differs,
        an_item_knows_its_mapping_and_when_it_was_looked_at,
        a_rejected_record_asks_to_be_fetched_again,
        a_record_that_comes_after_all_settles_what_the_quarantine_asked,
        a_look_at_a_record_settles_its_signal_or_counts_a_try,
        a_signal_is_open_once_per_record,
        a_person_gives_a_quarantined_record_up,
        late_is_what_changes_something_below_the_harvest,
        an_answer_is_kept_as_long_as_it_should_be,
        bytes_are_kept_as_they_came,
    }
    control {
        what_is_paused_is_neither_planned_nor_claimed_until_it_is_released,
        a_hold_covers_what_it_names_and_nothing_else,
        a_plan_a_slice_a_task_or_a_credential_can_be_held,
        a_task_that_is_held_leaves_its_place_to_the_next,
        an_advice_stops_planning_and_lets_work_go_on,
        a_hold_lasts_once_per_kind_and_subject,
        a_hold_that_says_nothing_is_refused,
        a_run_that_ends_fatally_blows_the_fuse_with_its_end,
        an_advice_ends_when_a_task_of_its_partition_succeeds,
        an_advice_ends_when_it_has_lasted_long_enough,
        an_advice_ends_with_another_manifest,
        a_trigger_hands_on_why_and_what_for,
    }
    cancel {
        a_cancelled_task_is_over_wherever_it_was,
        whoever_worked_on_it_finds_it_gone,
        a_slice_is_cancelled_with_its_task,
        a_plan_is_cancelled_with_all_that_came_of_it,
        a_plan_that_has_ended_stays_as_it_is,
        a_plan_that_is_not_finished_takes_its_trigger_with_it,
        a_trigger_is_cancelled_with_all_that_came_of_it,
        a_planned_trigger_stays_planned_and_its_work_stops,
        a_cancelled_trigger_is_not_fired_again_under_its_name,
        what_is_not_there_cannot_be_cancelled,
    }
    redrive {
        a_batch_that_was_executed_is_read_back_and_nothing_happens,
        a_batch_that_failed_or_never_was_drives_its_task_again,
        a_task_that_is_driven_again_stands_in_the_old_ones_place,
        every_run_of_it_says_that_it_is_a_replay_and_resumes_from_its_own_pages,
        a_chain_of_redrives_resumes_from_the_last_page_of_any,
        what_narrower_tasks_replaced_is_not_driven_again,
        a_cancelled_slice_is_ready_again_and_a_cancelled_plan_never,
        a_segment_is_driven_again_in_its_place,
        a_segment_behind_the_value_holds_nothing_up,
    }
    gate {
        slots_are_handed_out_once_and_survive,
        many_askers_at_once_never_share_a_slot,
        quotas_and_silence_last,
        keys_have_nothing_to_do_with_each_other,
    }
    retention {
        old_pages_of_ended_tasks_leave_the_ledger_with_their_lineage,
        an_archive_stops_at_its_limit_and_goes_on_the_next_time,
        the_newest_event_stays_and_the_cursor_still_follows_it,
        what_is_over_is_deleted_and_what_lasts_is_not,
        all_evidence_of_a_batch_is_found_by_its_key,
        a_batch_in_the_archive_is_read_back_too,
        a_plan_is_told_with_all_that_came_of_it_archived_or_not,
        a_trigger_is_told_in_the_words_of_schedulers_too,
        an_export_is_on_record,
        archived_pages_are_no_place_to_resume_from,
    }
    rows {
        a_trigger_is_on_record_with_all_that_was_asked_before_anything_is_read,
        plan_slices_and_tasks_hold_what_the_planner_froze,
        a_run_repeats_source_and_window_and_keeps_its_numbers_and_its_error,
        a_batch_says_where_it_stood_and_where_it_leads_in_the_words_of_its_paging,
    }
    schedule {
        what_a_schedule_asks_for_is_of_the_manifests_project,
        an_endpoint_has_a_schedule_per_operation_and_reason,
        each_schedule_fires_what_it_says,
        a_pattern_that_never_comes_is_never_due,
        a_pattern_goes_on_from_now_however_long_the_pause,
        a_schedule_without_a_time_is_refused,
    }
    credential {
        a_rotation_adds_a_version,
        only_what_is_bound_there_is_found,
        revoking_erases_the_secret_and_the_token,
        one_refreshes_and_the_others_wait_or_take_the_newer_token,
        a_token_is_stored_once_and_only_by_the_holder,
        a_dead_refresher_is_followed_after_its_lease,
        at_the_start_of_the_only_process_no_refresh_is_under_way,
        a_failed_refresh_is_counted_and_ends_the_lease,
        what_the_upstream_thinks_counts_for_the_token_it_saw,
        lists_show_no_sealed_text,
        of_twenty_refreshers_one_goes,
    }
    query {
        every_view_lists_its_columns_newest_first,
        a_filter_keeps_what_meets_all_its_conditions,
        a_filter_that_the_view_does_not_know_is_refused,
        a_long_list_is_read_page_by_page,
        a_list_can_be_of_a_span_of_time,
        progress_sums_up_the_work_of_a_trigger,
        keys_are_made_found_and_revoked,
        the_store_answers_a_ping,
        payloads_come_back_byte_for_byte,
        times_keep_their_microseconds,
    }
    source {
        a_source_is_saved_once_per_key_and_project,
        a_new_source_is_due_at_once_and_a_fetched_one_an_interval_later,
        the_never_fetched_are_due_first_and_then_the_oldest,
        what_nobody_can_fetch_sleeps_until_somebody_can,
        another_interval_moves_those_that_have_none_of_their_own,
        a_change_leaves_what_it_does_not_name,
        another_config_makes_it_due_and_belongs_to_one,
        a_pause_lasts_until_a_person_ends_it,
        a_deleted_source_is_gone_and_its_key_is_free,
        sources_are_read_by_project_number_and_page,
        a_config_that_is_no_object_is_refused,
        collectors_tell_that_they_live,
        settings_are_set_and_removed,
    }
    poll {
        a_poll_is_a_plan_of_one_slice_with_one_task,
        only_what_is_as_it_was_seen_is_polled,
        a_crash_does_not_make_a_poll_come_again_and_again,
        many_polls_are_queued_at_once_in_their_order,
        polls_are_claimed_by_time_and_few_of_one_host,
        many_collectors_at_once_keep_to_the_limit_of_a_host,
        many_who_poll_a_source_poll_it_once,
        a_poll_that_is_held_is_passed_over,
        polls_are_no_work_of_the_others,
        a_change_cancels_a_poll_that_waits_and_no_other,
        a_success_is_counted_and_the_next_poll_an_interval_later,
        failures_wait_longer_and_the_fifth_pauses,
        what_is_gone_is_paused_and_what_nobody_reaches_is_not_counted,
        what_a_source_is_known_by_comes_with_the_next_run,
        a_source_moves_with_its_key_unless_another_has_it,
        of_many_that_move_to_one_address_one_gets_it,
        a_poll_is_not_driven_again,
        what_cannot_be_polled_has_failed,
    }
    found {
        an_item_belongs_to_every_source_that_found_it,
        items_are_listed_from_the_last_to_the_first,
        what_collectors_did_is_counted,
        old_items_are_emptied_and_do_not_come_back,
        old_polls_are_forgotten_and_nothing_else,
        cleaning_and_collecting_at_once_lose_nothing,
    }
    cookie {
        a_cookie_is_stored_once_per_name,
        a_name_belongs_to_one_cookie,
        another_value_is_trusted_like_a_new_one,
        a_person_trusts_a_cookie_again,
        a_cookie_saved_as_any_credential_is_one_of_the_pool,
        cookies_are_listed_by_name_without_their_values,
        what_is_sealed_is_sealed_anew_in_its_place,
        one_cookie_saved_by_twenty_is_one_cookie,
    }
    pool {
        the_best_is_taken_and_equals_take_turns,
        a_pick_hands_out_the_cookie_as_it_is,
        a_limit_lasts_for_a_day,
        a_name_picks_only_that_one,
        errors_rest_a_cookie_and_more_of_them_end_it,
        cooling_ends_by_itself,
        nothing_is_judged_that_is_no_cookie,
        fifty_callers_use_a_cookie_no_more_than_they_may,
        fifty_callers_find_what_is_left_of_three,
    }
    lock {
        a_workflow_has_one_holder,
        whoever_is_silent_for_too_long_has_lost_it,
        a_sign_of_life_renews_a_lock,
        a_lock_is_given_back_once,
        executions_are_listed_from_the_oldest_on,
        of_fifty_who_ask_for_a_lock_one_gets_it,
        of_many_who_find_a_dead_holder_one_follows,
        the_locks_of_the_dead_are_taken_back_once,
    }
    crawl {
        a_note_is_added_once_per_platform,
        the_oldest_are_claimed_first,
        only_a_live_execution_claims,
        a_note_is_tried_four_times,
        what_failed_gets_another_chance,
        a_sign_of_life_renews_what_is_held,
        what_the_dead_held_is_tried_again_or_has_failed,
        candidates_are_listed_by_what_is_asked_for,
        fifty_claims_of_ten_notes_share_nothing,
        one_list_added_by_twenty_is_added_once,
    }
    note {
        a_note_is_stored_once,
        whoever_writes_a_note_its_candidate_is_done,
        notes_are_known_by_project_and_platform,
        a_note_is_an_item_like_others,
        one_note_written_by_twenty_is_created_once,
    }
    alert {
        requests_are_counted_for_ten_minutes,
        a_condition_that_holds_is_told_and_its_end_too,
        of_twenty_who_watch_one_is_told,
    }
    concurrent {
        fifty_claims_of_ten_tasks_share_nothing,
        many_claimers_together_keep_to_the_limit_of_a_partition,
        of_plans_made_at_one_epoch_exactly_one_is_saved,
        one_plan_saved_by_twenty_is_saved_once,
        twenty_recordings_write_one_event,
        one_public_id_fired_by_twenty_is_one_trigger,
        a_trigger_is_taken_by_one_of_twenty,
        the_newest_of_concurrent_pages_wins,
        a_provenance_that_many_write_is_that_of_one_of_them,
        one_dictionary_written_by_twenty_is_written_once,
        one_request_to_drive_a_task_again_makes_one_task,
        of_many_requests_to_drive_a_task_again_one_goes,
        what_twenty_hold_or_signal_is_held_and_signalled_once,
        a_plan_cancelled_by_twenty_is_cancelled_once,
        a_page_and_the_cancelling_of_its_task_do_not_mix,
        what_twenty_archive_is_archived_once,
        of_starts_at_once_each_is_answered_for_itself,
        of_pages_at_once_each_is_answered_for_itself,
        of_ends_at_once_each_is_answered_for_itself,
    }
    project {
        a_project_is_made_once_and_one_is_there_from_the_start,
        a_key_names_the_projects_that_it_may_act_for,
        a_list_shows_what_is_of_the_project_and_nothing_else,
        projects_share_no_cursor_no_coverage_and_no_signal,
        a_job_has_a_type_and_a_project,
        a_job_has_begun_with_its_first_task_and_ended_with_its_last,
    }
    urls {
        a_url_is_stored_once_per_library_with_its_first_finding,
        a_projects_entry_covers_the_shared_one_before_anything_is_filtered,
        pages_follow_each_other_newest_first,
        a_part_of_a_domain_is_what_it_is,
        what_does_not_fit_the_pool_is_refused_as_a_whole,
        fifty_writers_of_one_url_make_one_row_and_no_error,
        totals_agree_with_a_count_after_many_random_inserts,
        writers_of_both_libraries_at_once_lose_no_count,
    }
    capture {
        what_is_captured_is_said_for_each_project_and_job_type,
        a_page_brings_its_urls_into_the_pool_once,
        a_capture_that_fails_costs_the_page_nothing,
        a_note_brings_its_urls_too,
    }
    chore {
        a_chore_is_asked_for_once_taken_and_done,
        a_chore_whose_worker_died_is_taken_by_the_next,
        planners_take_no_chores_and_workers_no_triggers,
        a_chore_can_be_cancelled_before_and_while_it_is_done,
        many_workers_share_no_chore,
        old_chores_are_forgotten,
    }
    scrape {
        a_job_polls_its_sources_and_knows_them,
        a_job_is_begun_whole_or_not_at_all,
        a_job_takes_the_place_of_a_poll_that_waits,
        a_job_that_is_asked_for_again_is_the_same,
        of_many_jobs_at_once_one_has_the_sources,
        fetches_of_a_user_are_counted_when_they_went_well,
        an_old_job_is_forgotten_with_all_its_polls,
        a_tweet_is_stored_once_by_concurrent_polls,
        a_thousand_tweets_are_stored_within_ten_seconds,
    }
    outbox {
        an_event_is_leased_told_and_over,
        an_event_whose_teller_died_is_told_by_another,
        an_event_that_nobody_takes_is_told_again_later_each_time_and_given_up,
        an_event_that_was_given_up_is_told_again_when_somebody_asks,
        of_a_topic_nothing_is_told_beside_an_event_that_is_on_its_way,
        what_a_page_stores_is_told_with_it_and_once,
        events_of_a_topic_are_told_in_their_order,
        of_many_tellers_one_at_a_time_has_a_topic,
        many_tellers_share_no_event,
    }
    document {
        a_document_is_known_by_its_uri,
        documents_are_found_by_type_state_and_number,
        jobs_are_listed_once_they_have_ended,
        partitions_are_part_of_their_job,
        tweets_are_read_newest_first,
    }
    board {
        the_queue_is_counted_by_source_endpoint_and_operation,
        a_hold_of_a_source_is_told_until_it_is_released,
        what_was_done_is_counted_with_it,
        what_is_old_is_counted_by_the_quarter_and_the_hour_and_is_still_there,
        errors_are_counted_by_kind_with_the_place_of_the_last,
        a_cursor_tells_where_it_stands_and_how_it_came_there,
    }
}};
}

macro_rules! table {
    ($($module:ident { $($name:ident),* $(,)? })*) => {
        /// Every case by name.
        pub const CASES: &[(&str, Case)] = &[$($(
            (concat!(stringify!($module), "::", stringify!($name)), |fixture| Box::pin(super::$module::$name(fixture)))
        ),*),*];
    };
}

contract_cases!(table);
