//! Bugs on purpose. Each breaks one rule that the protocols or the store keep; the simulator must notice every one, or
//! its silence about the real code would mean nothing. They live in wrappers inside the simulator, never in the
//! product.

macro_rules! mutants {
    ($($(#[doc = $doc:literal])* $name:ident),* $(,)?) => {
        /// One bug.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mutant { $($(#[doc = $doc])* $name),* }

        impl Mutant {
            pub const ALL: &[Mutant] = &[$(Mutant::$name),*];

            pub fn as_str(self) -> &'static str {
                match self { $(Mutant::$name => stringify!($name)),* }
            }

            /// Description of the bug.
            pub fn describe(self) -> &'static str {
                match self { $(Mutant::$name => concat!($($doc),*).trim_ascii()),* }
            }
        }
    };
}

mutants! {
    /// A page is committed whatever the caller's fence.
    CommitUnfenced,
    /// A run is ended whatever the caller's fence.
    EndUnfenced,
    /// A run is opened whatever the caller's fence.
    StartUnfenced,
    /// The sweep takes back leases that have not expired.
    SweepIgnoresExpiry,
    /// The sweep does not notice that the store's clock was set back.
    ClockStepIgnored,
    /// The sweep moves the leases back with the clock, but not what waits.
    ClockStepForgetsQueue,
    /// The sweep puts finished tasks back into the queue.
    SweepReopensFinished,
    /// The sweep leaves the orphan's run open.
    SweepLeavesRunOpen,
    /// The sweep never fails a task.
    SweepIgnoresAttempts,
    /// A page that the store has refused counts as committed.
    RefusalIsDone,
    /// A death counts as an attempt for every task that the process was running.
    DeathMarksAll,
    /// A process does not know which of its tasks are suspects, so they run together.
    SuspectsUnknown,
    /// Leases are made and checked by the callers' clocks.
    LeaseByLocalClock,
    /// A lease that ran out can be renewed.
    RenewRevives,
    /// A claim keeps the fence of the one before.
    ClaimKeepsFence,
    /// A claim does not count as an attempt.
    ClaimUncounted,
    /// A failed attempt is given back like a deferral.
    RequeueUncounted,
    /// The cursor's event names the end of the last completed window, not of the prefix.
    CursorToMax,
    /// The value moves without an event.
    ValueWithoutEvent,
    /// The value may go back.
    CursorGoesBack,
    /// The newest event is overwritten instead of followed.
    EventOverwritten,
    /// A resumed run skips a page.
    ResumeSkipsPage,
    /// A run with a committed page counts as read to its end.
    ResumeAtEnd,
    /// A resumed run does not notice that numbered records have moved meanwhile.
    ResumeForgetsTotal,
    /// Numbered pages are read without any check.
    MovesUnchecked,
    /// A list that is to be read until two passes agree is read once.
    TwiceReadsOnce,
    /// A slice that is known to miss records is closed as succeeded.
    PartialIsSuccess,
    /// An empty page ends the list although it names a next one.
    EmptyPageEnds,
    /// A resumed run begins again despite its committed pages.
    ResumeForgets,
    /// A repeated commit writes a second ledger row.
    CommitTwice,
    /// Records are stored, the ledger row is not.
    RecordsWithoutLedger,
    /// The ledger row is stored, the records are not.
    LedgerWithoutRecords,
    /// Rejected records are dropped.
    QuarantineLost,
    /// An older version replaces a newer one.
    OlderOverwrites,
    /// A task that failed after its first page counts as succeeded.
    FailureIsSuccess,
    /// A capped or deferred task is closed as succeeded.
    DeferralIsSuccess,
    /// Windows of failed tasks count as covered.
    FailedIsCovered,
    /// Windows of running tasks do not count as covered.
    RunningIsUncovered,
    /// A plan is saved by a planner that has lost the trigger.
    SaveUnfenced,
    /// A trigger is settled by a planner that has lost it.
    SettleUnfenced,
    /// A trigger is taken while another planner holds it.
    TakeIgnoresLease,
    /// Asking twice under one name makes two triggers.
    FireTwice,
    /// A window that failed gets the same task key as before, so it is never read again.
    TaskKeyWithoutState,
    /// A backfill moves the harvest's cursor.
    BackfillMovesHarvest,
    /// The event of a backfill names the lowest window that is complete, not the end of its prefix.
    BackfillToMin,
    /// A backfill in parts goes on above what it has sliced.
    BackfillRestAbove,
    /// A window that is split into page ranges loses its first range.
    RangeLeavesPageOut,
    /// Windows do not look back.
    LookbackIgnored,
    /// One completed range of pages completes its window.
    RangesCountAlone,
    /// The completed part of a window counts as the whole window.
    DoneTooFar,
    /// The completed part of a window is read again.
    DoneIsForgotten,
    /// The rest of a partly read window begins a second too late.
    RemainderTooShort,
    /// A task that fails at L4 halts nothing.
    HaltIgnored,
    /// An UPDATE leaves out the last id of a segment.
    UpdateForgetsId,
    /// The last segment of a plan begins behind its own end.
    SegmentsLeaveHole,
    /// A plan over ids ends with its first part.
    SegmentsEndEarly,
    /// The check of a record is not recorded.
    LooksAreLost,
    /// An id whose content is refused counts as fetched.
    RefusalResolves,
    /// A paused task is claimed.
    ClaimIgnoresPause,
    /// A trigger of a paused source is planned.
    TakeIgnoresPause,
    /// A renewal does not report that the task is paused.
    RenewHidesPause,
    /// A run continues after it learns that its task is paused.
    GiveBackIgnored,
    /// A sweep ends the pauses.
    SweepEndsPauses,
    /// A task of a cancelled plan or trigger stays in the queue.
    CancelLeavesQueued,
    /// Windows of cancelled tasks count as covered.
    CancelledIsCovered,
    /// A plan is saved whatever epoch the planner saw.
    EpochUnchecked,
    /// Every part of a plan begins again with the windows that failed.
    PartsStartOver,
    /// A transaction of unknown outcome counts as applied.
    UnknownIsDone,
    /// Windows are planned up to now, without the safety lag.
    PlansBeyondBarrier,
    /// The start of a window is left out.
    BorderLost,
    /// Silence that the upstream requests is not passed to the gate.
    ThrottleIgnored,
    /// A page is acknowledged before it is on disk.
    CommitVanishes,
    /// The last of several pages that are committed together is lost.
    GroupLosesLast,
    /// Only the last part of a page in parts has its records.
    PartsForgotten,
    /// A run that resumes between two parts of a page goes on behind the page.
    PartEndsList,
    /// Pages are read far ahead of their commit.
    ReadsFarAhead,
    /// An id that was fetched once is never fetched again, whatever its version.
    ScreenForgetsVersions,
    /// An id is marked as fetched although its record was not stored.
    MarksWithoutRecords,
    /// A window that is split loses its last part.
    SplitLosesPart,
    /// A trigger is fanned out by a planner that has lost it.
    FanUnfenced,
    /// The position of a fan-out is stored, its partitions are not.
    FanLosesPartitions,
    /// A fan-out begins again with every page.
    FanForgetsPlace,
    /// A partition that exists is made again.
    PartitionTwice,
    /// All partitions are kept under one cursor.
    PartitionsShareCursor,
    /// A pass that has not read its whole list marks what it has not seen.
    PartialPassMarks,
    /// A record that is seen again keeps its mark.
    MarkStays,
    /// A record that is found unchanged does not count as seen.
    UnchangedUnseen,
    /// A task that is queued again forgets what its pass has seen.
    RequeueForgetsSeen,
}
