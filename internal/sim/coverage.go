package sim

// situation is something that may happen in a run. A kind of fault that never occurs at the critical moment proves
// nothing, so the situations are counted, and a test fails if one never occurred.
type situation int

const (
	sawClaimRefused situation = iota
	sawClaimLate
	sawTakeOver
	sawTakeOverBusy
	sawTwoOwners
	sawOwnerWoke
	sawWokeInFlight
	sawVoid
	sawGap
	sawDeposedFact
	sawUnknownLanded
	sawUnknownLost
	sawErrorLanded
	sawErrorLost
	sawParts
	sawDouble
	sawAnswerTwice
	sawVeryLate
	sawLandedLate
	sawCopyLandedLate
	sawCompletedInDoubt
	sawCrashInFlight
	sawCrashUnstored
	sawEffectUnstored
	sawLogPaused
	sawLogResumed
	sawLogDeposed
	sawStoreLost
	sawStoreOlder
	sawEffectResent
	sawForwardResent
	sawWorkResent
	sawEffectTwice
	sawMute
	sawMutePartition
	sawUnsent
	sawDelayed
	sawCaughtUp
	sawDelayedFar
	sawDelayedRead
	sawDelayedTaken
	sawFactsInPages
	sawLeftBehind
	sawWorkRefused
	sawUndoRefused
	sawForwardRefused
	sawAlertRefused
	sawDeadRefused
	sawReply
	sawReplyAgain
	sawReplyRefused
	sawReplyGivenUp
	sawForwarded
	sawStillMisplaced
	sawForwardTooOld
	sawDuplicate
	sawDuplicateSwept
	sawConflict
	sawUnreadable
	sawInvalid
	sawNoWorkflow
	sawSchema
	sawTooLarge
	sawAtLimit
	sawUnpacked
	sawUnpackedBatch
	sawInputLimit
	sawOutputLimit
	sawFactLimit
	sawTaskRow
	sawHeld
	sawHeldConsumed
	sawHeldExpired
	sawHeldLimit
	sawCancel
	sawCancelRefused
	sawCancelParked
	sawRefused
	sawPaused
	sawPausedUndoing
	sawResumed
	sawTerminated
	sawRerunEnded
	sawRerunParked
	sawRerunUndoes
	sawRunBegun
	sawUndoInDoubt
	sawRequestTwice
	sawRetryParked
	sawRetryUndo
	sawRetryWaiting
	sawRequestRefused
	sawProgress
	sawProgressLate
	sawSilent
	sawTimeout
	sawUndoTimeout
	sawTimeoutRace
	sawLateReport
	sawReportTwice
	sawReportStranger
	sawReportEnded
	sawResultUndoing
	sawNoneBelieved
	sawNoneDoubted
	sawUndoUnknown
	sawUndoRetried
	sawUndoParked
	sawUndone
	sawPivot
	sawDeadlineUndo
	sawDeadlineAlert
	sawCoolDown
	sawExpression
	sawCheckFailed
	sawSkipped
	sawPermitWaits
	sawPermitGiven
	sawPermitRepeated
	sawPermitInDoubt
	sawPermitReturned
	sawPermitParked
	sawPermitUnused
	sawPermitPassed
	sawPermitBlocked
	sawLimitPaused
	sawLimitResumed
	sawLimitAskedTwice
	sawLimitRaised
	sawLimitDeleted
	sawStepPermitWaits
	sawStepPermitUnused
	sawUndoPermitInDoubt
	sawUndoFirst
	sawPaced
	sawParked
	sawReminded
	sawSoftTask
	sawSoftStep
	sawPanicInput
	sawPanicTask
	sawLethal
	sawLethalRejected
	sawJumpAhead
	sawJumpBack
	sawSuspended
	sawJumpBelieved
	sawLogAhead
	sawFlood
	sawAgentDown
	sawRedelivered
	sawOtherLife
	sawNewVersion
	sawOldVersion
	sawSwept
	sawStateHash
	sawMarker
	sawWindowFull
	sawMissing
	sawOneMissing
	sawNoOperation
	sawPausedAgent
	sawUncounted
	sawQueued
	sawLapsed
	sawContinued
	sawRememberShorter
	sawRememberLonger
	sawGivenUp
	sawGivenUpNone
	sawLostMore
	sawTrimmed
	sawTrimmedDeposed
	sawTrimmedUnder
	sawBarrier
	sawTooOld
	sawLevelRefused
	sawUndoneBare
	sawLandedInGrace
	sawCopyAfterUndo
	sawReplayed
	sawUndoOfNothing
	sawUndoNotFound
	sawTransaction
	sawAborted
	sawReportBehind
	sawWaitedHours
	sawOutage
	sawUnacknowledged
	sawRefusedForGood
	sawCorrected
	sawCorrectedAgain
	sawCorrectedBusy
	sawSkippedByHand
	sawSkippedTouched
	sawLeft
	sawCompletedByHand
	sawPivotByHand
	sawUndoneByHand
	sawFailedByHand
	sawFailedWaiting
	sawUndoFailedByHand
	sawGivenInput
	sawStop
	sawSleep
	sawSleepPaused
	sawSleepCut
	sawSleepTakenOver
	sawWokenByHand
	sawCorrectedSleep
	sawScheduleFired
	sawScheduleTakenOver
	sawScheduleTriggered
	sawScheduleSkipped
	sawScheduleQueued
	sawScheduleMissed
	sawScheduleFailed
	sawScheduleEnded
	sawScheduleRejected
	sawScheduleRepeat
	sawScheduleCancels
	sawScheduleReplaced
	sawScheduleAgain
	sawScheduleStranger
	sawStartRefused
	sawSchedulePaused
	sawScheduleChanged
	sawScheduleDeleted
	sawScheduleCorrected
	sawNotBefore
	sawNotBeforeTakenOver
	sawNotBeforeCut
	sawNotBeforePaused
	sawCorrectedDelay
	sawSignalHeld
	sawSignalKept
	sawSignalTaken
	sawSignalRefused
	sawTwoWaiters
	sawWaitTimeout
	sawSignalRace

	situations
)

// named has a name for each situation; rare ones are required only in long runs.
var named = [situations]struct {
	name string
	rare bool
}{
	sawClaimRefused:       {name: "a claim is refused"},
	sawClaimLate:          {name: "a claim lands after its node gave it up", rare: true},
	sawTakeOver:           {name: "another node takes over"},
	sawTakeOverBusy:       {name: "another node takes over while attempts run"},
	sawTwoOwners:          {name: "two nodes each believe that they own a partition"},
	sawOwnerWoke:          {name: "a deposed owner wakes up", rare: true},
	sawWokeInFlight:       {name: "a deposed owner wakes up with appends whose answers it has not heard", rare: true},
	sawVoid:               {name: "a fact is void"},
	sawGap:                {name: "a gap in the sequence breaks an epoch"},
	sawDeposedFact:        {name: "a fact of a deposed owner lands"},
	sawUnknownLanded:      {name: "an append without an answer had landed"},
	sawUnknownLost:        {name: "an append without an answer was lost"},
	sawErrorLanded:        {name: "an append that was answered by an error had landed"},
	sawErrorLost:          {name: "an append that was answered by an error was lost"},
	sawParts:              {name: "an append lands in parts"},
	sawDouble:             {name: "an append lands twice"},
	sawAnswerTwice:        {name: "an answer comes twice"},
	sawVeryLate:           {name: "an append lands half a minute late"},
	sawLandedLate:         {name: "an effect in doubt lands after its report"},
	sawCrashInFlight:      {name: "a node crashes with appends on their way"},
	sawCrashUnstored:      {name: "a node crashes with acknowledged facts that are not in its store"},
	sawLogPaused:          {name: "a busy owner stops reading its own log"},
	sawLogResumed:         {name: "an owner reads its own log again"},
	sawLogDeposed:         {name: "an owner is deposed while it does not read its own log"},
	sawEffectUnstored:     {name: "an effect leaves before its fact is in the store"},
	sawStoreLost:          {name: "a crash takes the store"},
	sawStoreOlder:         {name: "a node starts on an older store"},
	sawEffectResent:       {name: "an effect that had landed is sent again"},
	sawForwardResent:      {name: "a forward that had landed is sent again", rare: true},
	sawWorkResent:         {name: "work is sent again after a take-over", rare: true},
	sawEffectTwice:        {name: "an effect lands twice"},
	sawMute:               {name: "a topic answers no effect for a while"},
	sawMutePartition:      {name: "a partition of an agent's topic takes no work for a while", rare: true},
	sawUnsent:             {name: "an attempt whose request nobody took is not counted", rare: true},
	sawDelayed:            {name: "a destination is delayed"},
	sawCaughtUp:           {name: "a delayed destination catches up"},
	sawDelayedFar:         {name: "a delayed destination gets further", rare: true},
	sawDelayedRead:        {name: "delayed effects are read from the log", rare: true},
	sawFactsInPages:       {name: "facts are read from the log in pages"},
	sawDelayedTaken:       {name: "a new owner takes over a delayed destination"},
	sawLeftBehind:         {name: "an effect of a generation that is over lands"},
	sawWorkRefused:        {name: "the broker refuses work"},
	sawUndoRefused:        {name: "the broker refuses the work of an undo", rare: true},
	sawForwardRefused:     {name: "the broker refuses a forward", rare: true},
	sawAlertRefused:       {name: "the broker refuses an alert"},
	sawDeadRefused:        {name: "the broker refuses a dead letter for a while"},
	sawReply:              {name: "a reply lands"},
	sawReplyAgain:         {name: "a reply lands again"},
	sawReplyRefused:       {name: "the broker refuses a reply for a while"},
	sawReplyGivenUp:       {name: "a reply is given up", rare: true},
	sawForwarded:          {name: "a misplaced input is sent home"},
	sawStillMisplaced:     {name: "a forwarded input is misplaced again", rare: true},
	sawForwardTooOld:      {name: "a forwarded input is older than what is remembered", rare: true},
	sawDuplicate:          {name: "a repeated submission is passed"},
	sawDuplicateSwept:     {name: "a repeated submission is accepted again after its task was swept", rare: true},
	sawConflict:           {name: "a submission contradicts an earlier one"},
	sawUnreadable:         {name: "an input cannot be read", rare: true},
	sawInvalid:            {name: "an input is invalid", rare: true},
	sawNoWorkflow:         {name: "a workflow is not known"},
	sawSchema:             {name: "an input does not fit its schema"},
	sawTooLarge:           {name: "a submission is above its limit"},
	sawAtLimit:            {name: "a submission is accepted at its very limit"},
	sawUnpacked:           {name: "a record unpacks to more than the engine reads", rare: true},
	sawUnpackedBatch:      {name: "a batch of several records unpacks to more than the engine reads", rare: true},
	sawInputLimit:         {name: "the input of a step is above its limit"},
	sawOutputLimit:        {name: "an output is above its limit"},
	sawFactLimit:          {name: "a task is parked at its limit of facts"},
	sawHeld:               {name: "a cancel is held"},
	sawHeldConsumed:       {name: "a held cancel is consumed by its task"},
	sawHeldExpired:        {name: "a held cancel expires"},
	sawHeldLimit:          {name: "no more requests are held"},
	sawCancel:             {name: "a live task is cancelled"},
	sawCancelRefused:      {name: "a cancel comes too late"},
	sawCancelParked:       {name: "a parked task is cancelled", rare: true},
	sawRefused:            {name: "a request is refused"},
	sawPaused:             {name: "a task is paused"},
	sawPausedUndoing:      {name: "a task is paused while it is undone", rare: true},
	sawResumed:            {name: "a paused task is resumed"},
	sawRerunEnded:         {name: "a task that has ended is rerun"},
	sawRerunParked:        {name: "a parked task is rerun"},
	sawRerunUndoes:        {name: "steps are undone because they are to run once more"},
	sawRunBegun:           {name: "another run of a task begins"},
	sawUndoInDoubt:        {name: "a run begins while a request to undo may still land", rare: true},
	sawTerminated:         {name: "a task is terminated", rare: true},
	sawRequestTwice:       {name: "a request comes twice"},
	sawRetryParked:        {name: "a parked task is retried"},
	sawRetryUndo:          {name: "a failed undo is retried", rare: true},
	sawRetryWaiting:       {name: "a waiting step is retried at once", rare: true},
	sawRequestRefused:     {name: "a request is refused"},
	sawProgress:           {name: "an attempt shows progress"},
	sawProgressLate:       {name: "an attempt shows progress while its task is undone", rare: true},
	sawSilent:             {name: "an agent ends a silent attempt"},
	sawTimeout:            {name: "an attempt times out"},
	sawUndoTimeout:        {name: "an undo times out"},
	sawTimeoutRace:        {name: "an attempt times out while its report is unread", rare: true},
	sawLateReport:         {name: "a report comes after the timeout of its attempt"},
	sawReportTwice:        {name: "a report comes twice"},
	sawReportStranger:     {name: "a report names an attempt that never existed"},
	sawReportEnded:        {name: "a report comes for a task that ended or is gone"},
	sawResultUndoing:      {name: "a result comes after undoing began"},
	sawNoneBelieved:       {name: "an attempt without effect is believed"},
	sawNoneDoubted:        {name: "an attempt without effect is doubted after a take-over", rare: true},
	sawUndoUnknown:        {name: "a step of unknown outcome is undone"},
	sawUndoRetried:        {name: "an undo is retried"},
	sawUndoParked:         {name: "a task is parked because an undo failed"},
	sawUndone:             {name: "a task is undone"},
	sawPivot:              {name: "a pivot is passed"},
	sawDeadlineUndo:       {name: "a deadline undoes a task"},
	sawDeadlineAlert:      {name: "a deadline only alerts"},
	sawCoolDown:           {name: "a step cools down", rare: true},
	sawExpression:         {name: "an expression fails", rare: true},
	sawCheckFailed:        {name: "a result means failure", rare: true},
	sawSkippedByHand:      {name: "an operator skips a step", rare: true},
	sawSkippedTouched:     {name: "an operator skips a step that may have had an effect", rare: true},
	sawLeft:               {name: "an operator skips an undo", rare: true},
	sawCompletedByHand:    {name: "an operator completes a step", rare: true},
	sawPivotByHand:        {name: "an operator completes the pivot", rare: true},
	sawUndoneByHand:       {name: "an operator completes an undo", rare: true},
	sawFailedByHand:       {name: "an operator fails a running attempt", rare: true},
	sawFailedWaiting:      {name: "an operator fails a step that waits for its next attempt", rare: true},
	sawUndoFailedByHand:   {name: "an operator fails an undo", rare: true},
	sawStop:               {name: "an owner stops an attempt whose outcome nobody needs"},
	sawSleep:              {name: "a step sleeps until its time"},
	sawSleepPaused:        {name: "a sleep ends while its task is paused or parked", rare: true},
	sawSleepCut:           {name: "a task that sleeps turns back", rare: true},
	sawSleepTakenOver:     {name: "a sleep ends in another epoch than it began"},
	sawWokenByHand:        {name: "an operator decides about a step that sleeps", rare: true},
	sawCorrectedSleep:     {name: "a sleep that began at a wrong time is corrected", rare: true},
	sawScheduleFired:      {name: "a due time of a schedule leads to a task"},
	sawScheduleTakenOver:  {name: "a due time leads to a task in another epoch than the one before"},
	sawScheduleTriggered:  {name: "a schedule is triggered"},
	sawScheduleSkipped:    {name: "a due time is skipped because a task runs"},
	sawScheduleQueued:     {name: "a due time is queued behind a task"},
	sawScheduleMissed:     {name: "a due time is missed", rare: true},
	sawScheduleFailed:     {name: "the submission of a due time cannot be made"},
	sawScheduleEnded:      {name: "a schedule hears the end of its task"},
	sawScheduleRejected:   {name: "the submission of a schedule is rejected"},
	sawScheduleRepeat:     {name: "an input about a schedule is passed"},
	sawScheduleCancels:    {name: "a schedule asks its task to cancel"},
	sawScheduleReplaced:   {name: "a later due time takes the place of the one that waits"},
	sawScheduleAgain:      {name: "a schedule starts a task that a deleted one of its name has started"},
	sawScheduleStranger:   {name: "the cancel of a schedule finds the task of a deleted one of its name", rare: true},
	sawStartRefused:       {name: "the broker refuses the submission of a schedule"},
	sawSchedulePaused:     {name: "a schedule is paused"},
	sawScheduleChanged:    {name: "a schedule is changed"},
	sawScheduleDeleted:    {name: "a schedule is deleted"},
	sawScheduleCorrected:  {name: "the next due time of a schedule is corrected with the clock", rare: true},
	sawNotBefore:          {name: "a task that waits for its time begins"},
	sawNotBeforeTakenOver: {name: "a task begins in another epoch than it was accepted"},
	sawNotBeforeCut:       {name: "a task turns back or is terminated before its time"},
	sawNotBeforePaused:    {name: "a task is paused before its time", rare: true},
	sawCorrectedDelay:     {name: "a task that was accepted at a wrong time waits for its time, and is corrected", rare: true},
	sawSignalHeld:         {name: "a signal comes before its task"},
	sawSignalKept:         {name: "a signal comes before a step waits for it"},
	sawSignalTaken:        {name: "a step takes a signal"},
	sawSignalRefused:      {name: "a signal means failure", rare: true},
	sawTwoWaiters:         {name: "a signal comes for which two steps wait"},
	sawWaitTimeout:        {name: "a wait times out"},
	sawContinued:          {name: "a task goes on without a step whose time is over"},
	sawSignalRace:         {name: "a wait times out while a signal is unread", rare: true},
	sawGivenInput:         {name: "a retry gives another input", rare: true},
	sawSkipped:            {name: "a step is skipped"},
	sawPermitWaits:        {name: "a task waits for a permit that others have"},
	sawPermitGiven:        {name: "a permit that is given back goes to the next task"},
	sawPermitRepeated:     {name: "an ask or a grant is repeated after an hour", rare: true},
	sawPermitInDoubt:      {name: "a permit is free only when no attempt in doubt can act", rare: true},
	sawPermitReturned:     {name: "a grant comes to a task that does not need it", rare: true},
	sawPermitParked:       {name: "a parked task gives its permit back", rare: true},
	sawPermitUnused:       {name: "a task that is paused or undone gives back what it has not used", rare: true},
	sawPermitPassed:       {name: "a record about a permit comes twice"},
	sawPermitBlocked:      {name: "tasks wait for the permit of one that is parked for long", rare: true},
	sawLimitPaused:        {name: "a limit that tasks need is paused", rare: true},
	sawLimitResumed:       {name: "a limit for which tasks wait goes on", rare: true},
	sawLimitAskedTwice:    {name: "a request about a limit changes nothing", rare: true},
	sawLimitRaised:        {name: "a limit for which steps wait is raised", rare: true},
	sawLimitDeleted:       {name: "a limit that steps name is deleted", rare: true},
	sawStepPermitWaits:    {name: "a step waits for a permit that others have"},
	sawStepPermitUnused:   {name: "an attempt that does not start gives its permit back", rare: true},
	sawUndoPermitInDoubt:  {name: "the permit of an undo without a report is kept", rare: true},
	sawPaced:              {name: "an attempt waits for the rate of its limit"},
	sawUndoFirst:          {name: "an undo gets a permit for which others wait", rare: true},
	sawParked:             {name: "a task is parked"},
	sawSoftTask:           {name: "the soft limit of a task passes"},
	sawSoftStep:           {name: "the soft limit of a step passes"},
	sawReminded:           {name: "the alert of a parked task is repeated"},
	sawPanicInput:         {name: "an input makes deciding panic"},
	sawPanicTask:          {name: "a task makes deciding panic"},
	sawLethal:             {name: "an input ends the process that judges it"},
	sawLethalRejected:     {name: "an input that ended processes is rejected"},
	sawJumpAhead:          {name: "a clock jumps ahead"},
	sawJumpBack:           {name: "a clock jumps back"},
	sawSuspended:          {name: "an owner holds back while its clock is suspected"},
	sawJumpBelieved:       {name: "a jump ahead is believed after a minute", rare: true},
	sawLogAhead:           {name: "an owner's clock is behind the log by more than a minute", rare: true},
	sawFlood:              {name: "one partition is flooded", rare: true},
	sawAgentDown:          {name: "an agent is down when work comes"},
	sawRedelivered:        {name: "an agent gets its work again"},
	sawOtherLife:          {name: "a report about an earlier task with the ID, with the numbers of a running attempt", rare: true},
	sawNewVersion:         {name: "a version that was applied while owners ran is adopted"},
	sawOldVersion:         {name: "an older version is current again"},
	sawSwept:              {name: "a task is swept"},
	sawStateHash:          {name: "a state hash is written and compared"},
	sawMarker:             {name: "a transaction marker is passed"},
	sawWindowFull:         {name: "an agent's window is full"},
	sawUncounted:          {name: "an attempt is not counted"},
	sawQueued:             {name: "a step must start in time"},
	sawLapsed:             {name: "the time of a step is over before its next attempt"},
	sawMissing:            {name: "steps wait for an agent without instances"},
	sawOneMissing:         {name: "steps wait for one operation of an agent that offers another"},
	sawNoOperation:        {name: "an instance gets a request for an operation that it lacks", rare: true},
	sawPausedAgent:        {name: "steps wait for an agent that is paused"},
	sawRememberShorter:    {name: "a partition adopts settings by which tasks are remembered for a shorter time"},
	sawRememberLonger:     {name: "a partition adopts settings by which tasks are remembered for longer"},
	sawGivenUp:            {name: "inputs that were deleted before they were judged are given up"},
	sawGivenUpNone:        {name: "an input continues although the last judged record is deleted", rare: true},
	sawLostMore:           {name: "more is deleted after a loss was accepted and before an owner acts on that", rare: true},
	sawTrimmed:            {name: "an owner trims inputs"},
	sawTrimmedDeposed:     {name: "an owner trims inputs although another one has claimed the partition", rare: true},
	sawTrimmedUnder:       {name: "an owner misses an input that another one has trimmed", rare: true},
	sawBarrier:            {name: "a partition gets a barrier"},
	sawTooOld:             {name: "an owner gives up its partition because its build is too old"},
	sawLevelRefused:       {name: "the level is not raised while an older node is heard"},
	sawCopyLandedLate:     {name: "a copy of an attempt lands after the report of another one"},
	sawCompletedInDoubt:   {name: "an agent reports that a completed attempt is in doubt"},
	sawTaskRow:            {name: "a task is committed in several rows"},
	sawUndoneBare:         {name: "a do is undone at a service that does not refuse it afterwards"},
	sawLandedInGrace:      {name: "an effect lands after its complete-by time"},
	sawCopyAfterUndo:      {name: "a second copy of a request comes after its undo", rare: true},
	sawReplayed:           {name: "a service is asked again for a task ID whose keys it remembers", rare: true},
	sawUndoOfNothing:      {name: "an undo finds nothing and succeeds"},
	sawUndoNotFound:       {name: "an undo of a completed do finds nothing and fails", rare: true},
	sawTransaction:        {name: "an open transaction holds an input back"},
	sawAborted:            {name: "a transaction is aborted"},
	sawReportBehind:       {name: "the complete-by time of an attempt passes while its report lies behind an open transaction"},
	sawWaitedHours:        {name: "a task waits for an agent for hours"},
	sawOutage:             {name: "a topic takes no effect any more"},
	sawUnacknowledged:     {name: "a topic acknowledges no effect any more"},
	sawRefusedForGood:     {name: "a topic refuses every effect from now on"},
	sawCorrected:          {name: "the time of a log is corrected", rare: true},
	sawCorrectedAgain:     {name: "another epoch continues a correction of the time", rare: true},
	sawCorrectedBusy:      {name: "an attempt that started at a wrong time is corrected", rare: true},
}
