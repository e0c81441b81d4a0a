//! The list of all cases.

/// Passes the list of all cases to a macro, after the given path.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_cases {
    ($macro:path $(, $given:path)?) => { $macro! { $($given;)?
    candidate {
        detail_candidate_is_added_once_per_version,
        detail_that_is_not_newer_replaces_nothing,
        failing_id_is_retried_after_growing_delays,
        split_replaces_a_slice_with_narrower_slices,
        split_under_a_lost_lease_changes_nothing,
    }
    load {
        load_counts_waiting_and_paused_tasks_by_partition, cursor_positions_are_reported_until_they_are_outdated,
        load_names_partitions_with_a_schedule,
    }
    clock {
        waits_are_no_longer_after_the_clock_was_set_back, clock_that_was_ahead_leaves_nothing_in_the_future,
        schedule_fires_again_in_an_hour_that_is_repeated, use_of_a_cookie_ends_after_the_clock_was_set_back,
    }
    next_due { next_due_reports_a_time_for_each_kind_of_work, }
    registry {
        apply_creates_changes_or_keeps_a_manifest,
        apply_replaces_the_endpoints,
        registry_stores_a_manifest_section_by_section,
        values_that_no_manifest_can_have_are_refused,
        removed_provenance_keeps_its_planned_work,
        recreated_schedule_does_not_wait_for_the_trigger_of_the_old_one,
        dictionary_returns_the_latest_entries,
        schedule_keeps_its_due_time_until_its_interval_changes,
        firing_twice_under_one_public_id_makes_one_trigger,
        due_schedule_fires_once_after_a_long_pause_and_keeps_step,
        schedule_does_not_fire_while_its_trigger_waits,
        due_schedules_fire_oldest_first_up_to_the_limit,
        without_a_schedule_nothing_is_due,
    }
    trigger {
        oldest_trigger_is_claimed_first_and_never_twice,
        expired_trigger_is_claimed_again_under_a_higher_fence,
        expiry_alone_fences_nobody,
        settling_ends_a_trigger_with_its_reason,
        deferred_trigger_is_claimable_after_its_delay,
        foreign_fence_settles_nothing,
    }
    fan {
        fan_out_makes_one_trigger_per_partition,
        fan_out_continues_where_it_stopped_and_makes_nothing_twice,
        only_the_holder_of_a_trigger_makes_its_children,
        fan_out_over_the_partition_limit_is_refused_and_makes_none,
        trigger_without_a_partition_ends_with_a_remark,
        trigger_waits_while_too_many_of_its_children_wait,
        triggers_of_a_full_inventory_are_not_claimed,
        jobs_of_other_partitions_are_not_claimed_for_one,
        schedule_does_not_fire_while_its_partitions_wait,
        progress_sums_up_a_trigger_and_all_its_partitions,
        parents_are_listed_by_key_with_their_partition,
        params_that_are_not_json_are_refused,
        task_names_the_credential_that_it_uses,
    }
    plan {
        namespace_without_a_plan_is_empty,
        plan_covers_its_windows_in_order,
        task_carries_the_spec_of_its_slice,
        running_and_done_tasks_are_covered_and_failed_ones_are_not,
        coverage_begins_beyond_the_cursor,
        namespaces_are_isolated_from_each_other,
        plan_made_from_an_older_epoch_is_a_conflict,
        planner_that_lost_its_trigger_saves_nothing,
        plan_repeated_after_a_lost_response_is_not_written_twice,
        task_that_exists_is_not_derived_again,
        partial_plan_is_continued_to_its_end,
        rest_of_a_plan_begins_behind_its_last_slice,
        only_a_partial_plan_of_this_trigger_is_continued,
        plan_without_slices_ends_its_trigger,
        snapshot_is_stored_once_under_its_hash,
        text_that_is_not_json_is_refused,
    }
    queue {
        tasks_are_claimed_by_priority_then_time_then_id,
        claim_takes_at_most_its_limit_and_nothing_twice,
        claimed_task_is_dispatched_under_its_owner,
        task_is_not_claimed_before_its_time,
        fence_and_attempts_rise_with_every_claim,
        renewal_extends_only_the_leases_of_the_owner,
        expired_lease_cannot_be_renewed,
        ended_task_cannot_be_renewed,
    }
    sweep {
        sweep_reclaims_only_expired_leases,
        sweep_at_the_start_of_the_only_process_reclaims_every_lease,
        sweep_frees_the_triggers_of_dead_planners,
        task_that_keeps_killing_its_process_fails,
        death_counts_only_for_a_suspect_that_was_running,
        orphan_run_fails_with_its_reason,
        task_that_finished_meanwhile_stays_finished,
        sweep_keeps_a_renewed_lease,
        many_live_leases_do_not_hide_one_dead_one,
        sweep_stops_at_its_limit_and_continues_the_next_time,
        swept_owner_cannot_write,
    }
    run {
        run_opens_once_per_lease,
        only_the_holder_of_the_lease_opens_a_run,
        task_starts_only_once,
        run_resumes_after_the_last_committed_page_of_any_run,
        run_after_the_last_page_has_nothing_left_to_read,
        paging_position_is_read_back_as_it_was_written,
    }
    end {
        success_closes_run_and_task,
        partial_or_failed_end_keeps_its_error,
        counted_requeues_fail_the_task_in_the_end,
        committed_page_resets_the_requeue_count,
        deferral_gives_the_attempt_back,
        requeued_task_waits_for_its_delay,
        ending_twice_returns_the_present_status,
        run_closed_by_the_sweep_keeps_its_state,
        only_the_holder_of_the_lease_ends_a_run,
        failed_page_is_in_the_ledger,
        failure_row_never_prevents_the_end_of_a_run,
    }
    commit {
        page_becomes_a_ledger_row_and_items,
        newer_replaces_equal_and_older_are_skipped,
        version_decides_between_records_of_equal_time,
        bad_record_is_quarantined_and_blocks_nothing,
        repeated_page_returns_the_first_counts,
        token_is_read_once_per_run,
        pages_are_committed_together_or_not_at_all,
        page_needs_a_running_run_under_its_lease,
        page_resets_the_attempt_count,
        page_of_more_rows_than_a_statement_takes_is_stored_whole,
        item_is_identified_by_project_source_scope_and_key,
    }
    cursor {
        cursor_advances_over_the_unbroken_prefix_only,
        failed_window_stops_the_prefix,
        window_that_overlaps_an_open_one_counts,
        cursor_value_follows_its_event_and_only_forward,
        accepted_gap_is_passed_and_stays_on_record,
        recording_twice_writes_one_event,
        event_names_its_origin,
        backfill_and_update_do_not_move_the_harvest_cursor,
    }
    fair {
        partitions_alternate_however_long_one_has_waited,
        operations_of_an_endpoint_and_endpoints_of_two_sources_are_partitions,
        priority_goes_before_fairness,
        partition_gets_at_most_its_limit,
        cap_lowers_the_limit_of_a_partition_and_never_raises_it,
        task_limit_applies_to_each_task,
        reversed_claim_takes_the_last_priority_first,
        claim_for_one_partition_leaves_all_others,
        reversed_claim_of_a_full_partition_takes_its_last_task,
        task_that_is_not_due_blocks_no_other,
    }
    coverage {
        window_read_in_ranges_is_complete_with_all_of_them,
        window_with_a_failed_range_is_read_again_as_a_whole,
        completed_part_counts_when_its_task_ends_short,
        completed_part_of_a_running_task_is_kept_and_does_not_count_yet,
        replacement_of_a_task_joins_its_completed_part,
        window_replaced_by_its_ranges_is_complete_with_them,
        backfill_is_complete_downwards_from_its_upper_end,
        backfill_value_falls_and_never_rises,
        backfill_does_not_move_the_harvest,
        backfill_uses_the_same_keys_and_versions,
        cursor_is_identified_by_its_namespace_not_its_endpoint,
        partial_backfill_continues_below_its_last_slice,
        backfill_begins_at_the_value_of_the_harvest,
        each_activity_has_its_own_namespace,
        history_lists_the_items_of_the_last_windows,
        items_of_all_runs_of_a_task_add_up,
        cursor_names_the_origin_of_its_value,
    }
    segment {
        segments_count_in_order_and_without_a_gap,
        id_cursor_value_is_its_last_id_ordered_by_number,
        newest_plan_of_segments_replaces_older_ones,
        plan_with_interleaved_segment_numbers_still_counts,
        segment_plan_has_no_window_and_continues_behind_its_last_id,
        refresh_does_not_move_the_harvest,
        refresh_candidates_are_split_into_key_ranges,
        refresh_candidates_are_records_of_the_stream,
        checked_or_remapped_record_is_no_refresh_candidate,
        signalled_record_is_a_refresh_candidate_stored_or_not,
    }
    refresh {
        refresh_replaces_a_different_record_of_equal_time,
        item_stores_its_mapping_and_the_time_of_its_last_check,
        rejected_record_is_signalled_for_another_fetch,
        record_that_arrives_later_settles_its_quarantine_signal,
        refresh_of_a_record_settles_its_signal_or_counts_a_try,
        signal_is_open_once_per_record,
        quarantined_record_can_be_given_up_by_hand,
        record_changed_below_the_harvest_is_late,
        response_is_kept_until_it_expires,
        response_bytes_are_kept_unchanged,
    }
    control {
        paused_work_is_neither_planned_nor_claimed_until_resumed,
        pause_covers_its_subject_and_nothing_else,
        plan_slice_task_and_credential_can_be_paused,
        paused_task_leaves_its_slot_to_the_next,
        paused_credential_leaves_the_work_of_others_alone,
        advice_stops_planning_and_lets_tasks_run,
        pause_exists_once_per_kind_and_subject,
        pause_with_an_incomplete_subject_is_refused,
        run_that_ends_fatally_opens_a_halt_with_its_end,
        advice_ends_when_a_task_of_its_partition_succeeds,
        advice_ends_after_its_time,
        advice_ends_when_the_manifest_changes,
        trigger_passes_its_reason_and_activity_to_partitions,
    }
    cancel {
        cancelled_task_ends_in_every_state,
        owner_of_a_cancelled_task_is_fenced,
        slice_is_cancelled_with_its_task,
        plan_is_cancelled_with_all_its_work,
        ended_plan_is_not_cancelled,
        unfinished_plan_is_cancelled_with_its_trigger,
        trigger_is_cancelled_with_all_its_work,
        planned_trigger_stays_planned_and_its_work_stops,
        cancelled_trigger_is_not_fired_again_under_its_name,
        missing_subject_cannot_be_cancelled,
    }
    redrive {
        redrive_of_an_executed_batch_returns_it_and_changes_nothing,
        redrive_of_a_failed_or_missing_batch_repeats_its_task,
        redriven_task_replaces_the_old_one,
        runs_of_a_redriven_task_are_replays_and_resume_from_their_own_pages,
        chain_of_redrives_resumes_from_the_last_page_of_any,
        task_replaced_by_narrower_tasks_is_not_redriven,
        redrive_reopens_a_cancelled_slice_and_never_a_cancelled_plan,
        redriven_segment_keeps_its_number,
        redriven_segment_behind_the_cursor_blocks_nothing,
    }
    gate {
        slots_are_handed_out_once_and_survive,
        concurrent_requests_never_share_a_slot,
        quotas_and_silence_apply_to_all_members,
        gate_keys_are_independent,
    }
    retention {
        old_pages_of_ended_tasks_are_archived_with_their_lineage,
        archive_stops_at_its_limit_and_continues_the_next_time,
        newest_event_stays_and_the_cursor_still_follows_it,
        retention_deletes_ended_rows_and_keeps_lasting_ones,
        evidence_of_a_batch_is_found_by_its_key,
        archived_batch_is_found_too,
        lineage_of_a_plan_includes_archived_batches,
        lineage_describes_the_job_in_scheduler_terms,
        export_is_recorded,
        run_does_not_resume_from_archived_pages,
    }
    rows {
        trigger_row_stores_the_whole_request_before_any_read,
        plan_slice_and_task_rows_store_the_frozen_plan,
        run_row_repeats_source_and_window_and_stores_counts_and_error,
        batch_row_stores_its_paging_position_before_and_after,
    }
    schedule {
        schedule_belongs_to_the_project_of_its_manifest,
        endpoint_has_a_schedule_per_operation_and_reason,
        schedule_fires_its_own_operation,
        pattern_that_never_matches_is_never_due,
        pattern_continues_from_now_after_a_pause,
        schedule_without_a_time_is_refused,
    }
    credential {
        rotation_adds_a_version,
        lookup_finds_only_bound_credentials,
        revoking_erases_the_secret_and_the_token,
        one_caller_refreshes_and_the_others_wait_or_take_the_newer_token,
        token_is_stored_once_and_only_by_the_lease_owner,
        refresh_of_a_dead_owner_is_taken_over_after_its_lease,
        start_of_the_only_process_clears_running_refreshes,
        failed_refresh_is_counted_and_ends_the_lease,
        upstream_verdict_applies_to_the_token_it_received,
        credential_list_contains_no_ciphertext,
        twenty_concurrent_refreshes_run_once,
    }
    query {
        every_view_lists_its_columns_newest_first,
        filter_returns_rows_that_meet_all_conditions,
        unknown_filter_is_refused,
        long_list_is_read_page_by_page,
        list_can_be_limited_to_a_span_of_time,
        progress_sums_up_the_work_of_a_trigger,
        unverified_tasks_are_counted,
        keys_are_made_found_and_revoked,
        store_responds_to_a_ping,
        payloads_are_returned_byte_for_byte,
        times_keep_their_microseconds,
    }
    source {
        source_is_saved_once_per_key_and_project,
        troubled_sources_are_found,
        new_source_is_due_at_once_and_a_fetched_one_an_interval_later,
        never_fetched_sources_are_due_first_then_the_oldest,
        source_without_a_fetcher_is_due_once_one_exists,
        changed_default_interval_moves_sources_without_their_own,
        change_keeps_fields_that_it_does_not_name,
        changed_config_makes_its_source_due,
        pause_lasts_until_resumed_by_hand,
        deleted_source_is_gone_and_its_key_is_free,
        sources_are_listed_by_project_number_and_page,
        config_that_is_not_an_object_is_refused,
        collector_heartbeats_are_stored,
        settings_are_set_and_removed,
    }
    poll {
        poll_is_a_plan_of_one_slice_with_one_task,
        source_that_changed_meanwhile_is_not_polled,
        crash_does_not_repeat_a_poll_endlessly,
        urgent_polls_go_before_the_backlog_of_their_host,
        polls_are_queued_together_in_order,
        polls_are_claimed_by_time_within_the_limit_of_a_host,
        concurrent_collectors_keep_to_the_limit_of_a_host,
        concurrent_polls_of_a_source_make_one,
        paused_poll_is_not_claimed,
        polls_are_not_claimed_by_other_executors,
        change_cancels_only_a_waiting_poll,
        success_is_counted_and_the_next_poll_is_an_interval_later,
        failures_back_off_and_the_fifth_pauses_the_source,
        gone_source_is_paused_and_an_offline_failure_is_not_counted,
        validators_are_returned_to_the_next_run,
        source_moves_with_its_key_unless_another_has_it,
        concurrent_moves_to_one_address_give_it_to_one,
        poll_is_not_redriven,
        source_that_cannot_be_polled_has_failed,
    }
    items {
        item_belongs_to_every_source_that_found_it,
        items_are_listed_newest_first,
        collector_stats_count_fetches_errors_and_items,
        old_items_are_emptied_and_do_not_come_back,
        old_polls_are_forgotten_and_nothing_else,
        concurrent_cleaning_and_collecting_lose_nothing,
    }
    cookie {
        cookie_is_stored_once_per_name,
        name_belongs_to_one_cookie,
        changed_value_reactivates_a_cookie,
        cookie_can_be_reactivated_by_hand,
        cookie_saved_as_a_plain_credential_joins_the_pool,
        cookies_are_listed_by_name_without_their_values,
        cookies_are_listed_in_pages_and_counted,
        ciphertext_is_replaced_in_place,
        twenty_concurrent_saves_make_one_cookie,
    }
    pool {
        pick_takes_the_best_cookie_and_alternates_between_equals,
        pick_returns_the_cookie_unchanged,
        daily_limit_lasts_for_a_day,
        pick_by_name_returns_only_that_cookie,
        errors_cool_a_cookie_and_more_of_them_disable_it,
        cooling_ends_after_its_time,
        outcome_is_recorded_for_cookies_only,
        fifty_concurrent_picks_keep_to_the_limit_of_a_cookie,
        fifty_concurrent_picks_use_up_three_cookies,
        check_uses_a_cooling_cookie_and_its_error_bans_it,
        paused_or_expired_cookie_is_not_picked,
        cookie_is_used_by_at_most_its_max_parallel,
        concurrent_picks_use_equal_cookies_equally_often,
    }
    lock {
        workflow_lock_has_one_owner,
        lock_is_lost_without_heartbeats,
        heartbeat_renews_a_lock,
        lock_is_released_once,
        executions_are_listed_oldest_first,
        fifty_concurrent_requests_for_a_lock_give_it_to_one,
        concurrent_requests_for_an_expired_lock_give_it_to_one,
        expired_locks_are_recovered_once,
    }
    crawl {
        note_candidate_is_added_once_per_platform,
        oldest_candidates_are_claimed_first,
        only_a_live_execution_claims,
        candidate_is_tried_four_times,
        failed_candidate_can_be_retried,
        heartbeat_renews_claimed_candidates,
        candidates_of_a_dead_execution_are_retried_or_failed,
        candidates_are_listed_by_filter,
        fifty_concurrent_claims_of_ten_notes_share_none,
        list_added_twenty_times_concurrently_is_added_once,
    }
    note {
        note_is_stored_once,
        stored_note_completes_its_candidate,
        notes_are_identified_by_project_and_platform,
        note_is_listed_as_an_item,
        note_written_twenty_times_concurrently_is_created_once,
    }
    alert {
        requests_are_counted_for_ten_minutes, alert_is_notified_when_it_fires_and_when_it_resolves,
        twenty_concurrent_watches_notify_once,
    }
    concurrent {
        fifty_concurrent_claims_of_ten_tasks_share_none,
        concurrent_claims_keep_to_the_limit_of_a_partition,
        concurrent_plans_of_one_epoch_save_one,
        plan_saved_twenty_times_concurrently_is_saved_once,
        twenty_recordings_write_one_event,
        public_id_fired_twenty_times_concurrently_makes_one_trigger,
        trigger_is_claimed_by_one_of_twenty,
        newest_of_concurrent_pages_wins,
        provenance_written_concurrently_is_that_of_one_writer,
        dictionary_written_twenty_times_concurrently_is_written_once,
        redrive_requested_twenty_times_makes_one_task,
        concurrent_redrives_of_a_task_accept_one,
        pause_or_signal_made_by_twenty_exists_once,
        plan_cancelled_by_twenty_is_cancelled_once,
        page_commit_and_cancellation_of_its_task_are_atomic,
        rows_archived_by_twenty_are_archived_once,
        concurrent_starts_get_their_own_results,
        concurrent_pages_get_their_own_results,
        concurrent_ends_get_their_own_results,
    }
    project {
        project_is_created_once_and_a_default_one_exists,
        api_key_names_its_projects,
        list_shows_rows_of_the_project_only,
        projects_share_no_cursor_no_coverage_and_no_signal,
        job_has_a_type_and_a_project,
        job_begins_with_its_first_task_and_ends_with_its_last,
    }
    urls {
        url_is_stored_once_per_library_with_its_first_sighting,
        project_entry_covers_the_shared_one_before_filtering,
        pages_are_ordered_newest_first,
        domain_filter_takes_its_characters_literally,
        list_with_an_invalid_url_is_refused_as_a_whole,
        fifty_concurrent_writers_of_one_url_make_one_row_and_no_error,
        totals_agree_with_a_count_after_many_random_inserts,
        concurrent_writers_of_both_libraries_lose_no_count,
    }
    capture {
        capture_rules_apply_by_project_and_job_type,
        page_adds_its_urls_to_the_pool_once,
        failed_capture_does_not_fail_the_page,
        note_adds_its_urls_to_the_pool,
    }
    background_job {
        background_job_is_requested_once_claimed_and_finished,
        background_job_of_a_dead_worker_is_claimed_by_the_next,
        planners_claim_no_background_jobs_and_workers_no_triggers,
        background_job_can_be_cancelled_while_waiting_or_running,
        concurrent_workers_share_no_background_job,
        old_background_jobs_are_deleted,
    }
    scrape {
        job_polls_its_sources_and_lists_them,
        scheduled_job_leaves_out_busy_sources,
        job_starts_whole_or_not_at_all,
        job_replaces_a_waiting_poll,
        job_requested_again_is_the_same,
        concurrent_jobs_give_the_sources_to_one,
        successful_fetches_of_a_user_are_counted,
        old_job_is_deleted_with_all_its_polls,
        tweet_is_stored_once_by_concurrent_polls,
        thousand_tweets_are_stored_within_ten_seconds,
    }
    missing {
        record_that_no_pass_of_its_list_sees_is_marked_until_it_is_seen_again,
        shared_record_is_missing_when_no_list_has_it,
        marks_are_made_part_by_part_under_the_lease_and_never_by_an_older_pass,
        undated_record_replaces_the_stored_one_only_if_it_differs,
    }
    outbox {
        start_of_the_only_process_frees_the_events_of_dead_ones,
        event_is_leased_delivered_and_settled,
        event_of_a_dead_relay_is_delivered_by_another,
        undeliverable_event_is_retried_with_growing_delays_and_given_up,
        event_that_was_given_up_can_be_redelivered,
        topic_delivers_one_event_at_a_time,
        page_writes_its_events_once,
        events_of_a_topic_are_delivered_in_order,
        concurrent_relays_lease_a_topic_one_at_a_time,
        concurrent_relays_share_no_event,
    }
    document {
        document_is_identified_by_its_uri,
        documents_are_found_by_type_state_and_number,
        jobs_are_listed_once_they_have_ended, partitions_are_part_of_their_job,
        tweets_are_read_newest_first,
    }
    board {
        queue_is_counted_by_source_endpoint_and_operation,
        pause_of_a_source_is_reported_until_it_is_resumed,
        work_is_counted_in_its_own_transaction,
        old_minutes_are_summed_by_quarter_and_hour_without_loss,
        errors_are_counted_by_kind_with_the_latest_location,
        cursor_reports_its_value_and_its_history,
    }
}};
}
