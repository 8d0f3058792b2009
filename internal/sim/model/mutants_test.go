package model_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/sim/model"
)

// mutant breaks one rule of the owner or of the fold by editing the line that the product marks with //mutant:NAME on
// the line above it.
type mutant struct {
	name string
	rule string
	edit edit
	// search matches the names of the configurations whose search must find the mutant.
	search string
	// breaks matches the violation that the search reports.
	breaks string
}

// mutants has a row for each mark in the product. If you move a marked line, move its mark with it. If you change the
// line, adapt its edit here.
var mutants = append(slices.Concat(trimMutants, carryMutants, childMutants, fanOutMutants, copyMutants), []mutant{
	{"end-asked-after-due", "a timer waits for an end that was asked for after it was due; seeing the end later is not enough",
		swap("t.askedAt", "t.now"), "^a timer, a crash$", "a Timeout beat a report"},
	{"judged-in-this-epoch", "an input counts as judged only if this epoch judged it",
		swap("timers{", "timers{horizon: t.horizon, "), "^a timer, an unknown outcome$", "a Timeout beat a report"},
	{"timeout-waits-for-reports", "an attempt times out only when the reports from before its complete-by time are judged",
		swap("outcomeInputs", "nil"), "^a timer$", "a Timeout beat a report"},
	{"deadline-waits-for-reports", "a deadline passes only when the reports from before it are judged",
		swap("outcomeInputs", "nil"), "^a timer, a deadline$", "a deadline beat a report"},
	{"end-passed-when-judged", "an end is passed when the input below it is judged, not when it is read",
		swap("judged", "fetched"), "^a timer, an unknown outcome$", "a Timeout beat a report|work is sent again"},
	{"passed-is-judged", "InputsPassed carries the judged position, not the read one",
		swap("judged", "fetched"), "^definitions, a crash, work$", "INV12: the resume point skipped"},
	{"idle-partition-passes", "an idle partition records how far it has judged its inputs",
		swap("i.unpassed()", "false"), "^a sweep, a duplicate$", "INV12: the folded resume point"},
	{"passed-before-sweep", "InputsPassed is recorded before a sweep",
		never, "^a sweep, a duplicate$", "durable before the horizon"},
	{"sweep-waits-for-submissions", "a sweep waits for submissions too",
		swap("everyInput", "outcomeInputs"), "^a sweep, a duplicate$", "durable before the horizon"},
	{"cached-until-committed", "a task leaves memory only when its latest state is committed",
		swap("seq", "min(seq, c.committed)"), "^a small cache$", "INV|stale|stops"},
	{"resent-work-is-kept", "work that is sent again waits for the reports",
		drop, "^a crash$", "work is sent again although its report was durable"},
	{"sweep-waits-for-ends", "a sweep waits for the ends of the inputs",
		swap("(at)", "(t.now)"), "^a sweep, a duplicate$", "durable before the horizon"},
	{"sweep-waits-after-jump", "nothing is forgotten right after the time of the log has jumped",
		swap("wait ||", "wait && false ||"), "^a sweep, a jump$", "the time of the log jump"},
	{"sweep-waits-for-effects", "a task is not swept while an effect of it is unacknowledged",
		swap("busy[id]", "(false && busy[id])"), "^a sweep with effects$", "was swept while an effect of it is not acknowledged"},
	{"forgotten-start-is-noted", "the fact that forgets a task of a schedule says when it ended",
		drop, "^a sweep, a late start$", "copies of its submission are not refused"},
	{"late-start-is-refused", "a submission of a schedule is refused if its task may be forgotten",
		swap("return ", "return false && "), "^a sweep, a late start$", "begins a second time"},
	{"held-cancel-is-recorded", "a held cancel is recorded as a fact",
		put("if true { return nil }"), "^a held cancel$", "the request was not judged"},
	{"held-expiry-waits-for-submissions", "a held cancel expires only after the submissions before it are judged",
		swap("everyInput", "outcomeInputs"), "^a held cancel$", "a held cancel expired although"},
	{"task-keeps-held-cancel", "the fold keeps a held cancel in its task",
		drop, "^a held cancel, work$", "a step started although a cancel was held"},
	{"held-cancel-is-used-once", "a held cancel is used once",
		drop, "^a held cancel$", "although its task was accepted after it"},
	{"all-pages-are-read", "a new owner reads all pages of the facts above the watermark",
		never, "^facts read in pages, a crash$", "the watermark passed an effect"},
	{"resuming-owner-sends-nothing", "a new owner sends nothing before it has read all facts above the watermark",
		never, "^facts read in pages, a crash$", "work is sent again although"},
	{"new-owner-resends", "a new owner sends again the effects above the watermark",
		never, "^a crash$", "effect"},
	{"resent-work-waits-for-reports", "work is sent again only when the earlier reports are judged",
		swap("judged == 0", "false"), "^a crash$", "work is sent again although its report was durable"},
	{"watermark-stops-before-effect", "the watermark stops before the first fact with an unsent effect",
		swap("before", "at"), "^(a crash|two tasks, a crash|batches, in parts)$", "the watermark passed an effect"},
	{"watermark-is-contiguous", "the watermark passes no gap",
		swap("> 0", "> 1"), "^(a crash|two tasks, a crash)$", "the watermark passed an effect"},
	{"idle-owner-reads-its-log", "an idle owner reads its own partition",
		put("if true { return true }"), "^a hand-over, no work$", "orphan partition|is committed up to"},
	{"refused-claim-is-retried", "a refused claim is tried again",
		swap("e.pause()", "1 << 60"), "^a hand-over, no work$", "orphan partition"},
	{"claim-id-is-fresh", "the ID of a claim is never used twice",
		swap("b[:claimBytes])", "b[:0]) + e.cfg.Node"), "^an unknown outcome$", "orphan|INV11|livelock"},
	{"plan-from-state", "follow-ups are planned from the state",
		always, "^a cancel, a crash$", "stuck task"},
	{"refused-forward-is-dead-letter", "a forward that is refused for good becomes a dead letter",
		never, "^a forward$", "lost effect"},
	{"dead-letter-is-never-given-up", "a dead letter is never given up",
		never, "^garbage, markers$", "a dead letter is given up"},
	{"resent-attempt-is-in-doubt", "an attempt that an earlier epoch may have sent never counts as without effect",
		swap(" && !i.sentTwice(s, p.Operation)", ""), "^an attempt without effect$", "an earlier owner may have sent"},
	{"result-counts-once", "a result counts once",
		swap(" || !t.Running(p.Step, p.Operation, p.Attempt)", ""), "^timers, failures$", "stops|INV|internal"},
	{"acknowledged-in-order", "acknowledgements are taken in the order of the appends",
		put("if f := e.flying; len(f) > 1 && !f[0].answered && f[1].answered { f[0], f[1] = f[1], f[0]; e.confirmed = f[0].offsets[0] }"), "^reordered and doubled$", "INV"},
	{"failed-append-ends-epoch", "the epoch ends when an append fails",
		put("if b.err != nil { e.flying = e.flying[1:]; return nil }"), "^an unknown outcome$", "INV|orphan|lost|stuck|livelock"},
	{"claim-names-predecessor", "a claim that names another predecessor is void",
		swap("(c.Prev != p.Epoch.ID && !s.lax.AnyClaim) || ", ""), "^a hand-over, doubled claims$", "INV11"},
	{"judged-in-topic-order", "inputs are judged in the order of their topic, none before its definition is known",
		put("q.passed()"), "^definitions asked for$", "INV12"},
	{"deleted-takes-no-tasks", "a definition that was deleted takes no tasks, even where it was adopted",
		swap("i.cfg.Deleted == nil", "true"), "^a deleted definition$", "deleted before it was submitted"},
	{"forward-says-where-found", "a forwarded copy says where it was found",
		swap("events.HeaderForwardedFrom", `"x"`), "^a forward$", "INV8|INV12"},
	{"refused-again-is-in-doubt", "work that is refused when it is sent again may have had an effect",
		swap(", again: f.Epoch != x.state.Partition.Epoch", ""), "^a refused request, sent before$", "an earlier owner may have sent"},
	{"effects-end-with-epoch", "effects that wait to be sent are dropped when the epoch ends",
		swap("outbox{", "*x; _ = outbox{"), "^a refused request, an unknown outcome$", "an earlier owner may have sent"},
	{"undo-waits-for-doubt", "an undo waits until an attempt in doubt can no longer act",
		put("if true { return 0 }"), "^an undo, in doubt$", "while an attempt of the task may still act"},
	{"completed-twice-is-in-doubt", "an undo waits for an attempt that was sent in two epochs, even if it was reported as completed",
		swap("i.sentTwice(s, p.Operation)", "false"), "^an undo, a cancel, a crash$", "while an attempt of the task may still act"},
	{"doubt-stays-in-task", "the fold keeps the time until which an attempt in doubt may act",
		drop, "^an undo, in doubt$", "while an attempt of the task may still act"},
	{"deadline-counts-on", "the time for which a task is parked does not count towards its deadline",
		drop, "^an operator retries, a deadline$", "and it has the deadline"},
	{"deadline-passes-again", "a deadline that passed while its task was parked passes again when the task is reopened",
		drop, "^an operator retries, a deadline$", "a step starts with the deadline"},
	{"no-do-starts-overdue", "no do starts in a task that its deadline is about to undo",
		swap("t.Deadline != 0", "false"), "^an operator retries, a deadline$", "its deadline is about to undo"},
	{"no-attempt-starts-late", "no attempt starts when the time of its step is over",
		swap("by != 0", "by < 0"), "^a start limit$", "although its time was over"},
	{"start-limit-waits-for-reports", "the time of a step is over only when the requests from before that are judged",
		swap("outcomeInputs", "nil"), "^a start limit$", "beat a request"},
	{"corrected-start-has-all-its-time", "a step that must start in time gets all its time again when the log's time goes back",
		swap("lasting(l.StartBy, l.TimedFrom, to)", "min(l.StartBy, to)"), "^a wrong clock, a start limit$", "over early"},
	{"paused-starts-nothing", "no attempt of a paused task starts",
		swap("t.Halted()", "(t.State == TaskStateError)"), "^a pause$", "starts while its task is paused"},
	{"deadline-of-paused-alerts", "a deadline does not undo a paused task",
		swap("task.Halted()", "task.State == events.TaskStateError"), "^a pause, a deadline$", "passes with the action"},
	{"terminate-refuses-while-running", "a task with a running attempt is not terminated",
		never, "^an operator terminates$", "is terminated while"},
	{"refusal-is-remembered", "a task remembers the requests that it refused",
		swap("t.Requests = slices", "_ = slices"), "^a refusal, twice$", "is judged a second time|was not judged"},
	{"nothing-is-decided-that-runs", "skip and complete are refused while an attempt runs",
		put(`if state == events.StepStateRunning { return s, "" }`), "^an operator skips$", "INV|stops|internal|while an attempt of it runs"},
	{"pivot-is-not-skipped", "the pivot is not skipped",
		never, "^an operator skips the pivot$", "INV|stops|internal"},
	{"failed-by-hand-is-in-doubt", "an attempt that was sent in two epochs is in doubt, whatever the operator says who fails it",
		never, "^an operator fails, a crash$", "an earlier owner may have sent"},
	{"undo-waits-for-failed-by-hand", "an undo waits for an attempt that an operator failed",
		drop, "^an operator fails, an undo$", "while an attempt of the task may still act"},
	{"failed-work-is-not-sent-again", "work that is held back is not sent if an operator has failed its attempt",
		never, "^an operator fails, a crash$", "panic"},
	{"completed-by-hand-frees-no-place", "a completion by hand frees no place in a window",
		always, "^an operator completes$", "running attempts of"},
	{"skipped-undo-is-left", "a step whose undo was skipped is named as left",
		swap("true", "false"), "^an operator skips an undo$", "was skipped: true"},
	{"skipped-step-is-undone", "a skipped step that may have had an effect is undone",
		put("s.Touched = false"), "^an operator skips, an undo$", "is not undone"},
	{"decision-is-remembered", "a task remembers what an operator decided about its steps",
		drop, "^an operator completes$", "is judged a second time|was not judged"},
	{"decision-lets-task-go-on", "a parked task goes on when an operator has decided about all its failed steps",
		drop, "^an operator skips, an undo$", "none of its steps has failed"},
	{"run-begins-after-undos", "a run begins when what is redone is undone",
		swap("more ||", "more && t.Rerun == nil ||"), "^a rerun, an undo$", "."},
	{"redone-step-has-new-run", "a step that is redone belongs to the new run",
		swap("Run: b.Run, ", ""), "^a rerun$", "starts in run 1, which is run 2"},
	{"do-waits-for-its-undo", "a step starts only when no request to undo it in an earlier run can land any more",
		swap("s.UndoQuietAt", "0"), "^a rerun, an undo in doubt$", "while an attempt to undo it may still act"},
	{"do-waits-for-undo-in-doubt", "the fact of an undo in doubt says until when it may act",
		put("if true { return 0 }"), "^a rerun, an undo in doubt$", "while an attempt to undo it may still act"},
	{"undo-in-doubt-outlasts-its-run", "a step keeps the time until which its undo may act when a run begins",
		swap("undoQuiet: s.undoQuiet, ", ""), "^a rerun, an undo in doubt$", "while an attempt to undo it may still act"},
	{"undone-twice-is-in-doubt", "an undo that was sent in two epochs is in doubt, even if it was reported as completed",
		swap("i.afterwards(s, p)", "events.EffectNone"), "^a rerun, an undo sent twice$", "while an attempt to undo it may still act"},
	{"work-has-the-run-of-its-fact", "a work request has the run of its fact",
		swap("events.RunOf(b.Run)", "1"), "^a rerun$", "is sent for run 1"},
	{"rerun-refuses-while-running", "nothing is redone that runs",
		never, "^a rerun, a step beside$", "rerun"},
	{"rerun-stops-at-pivot", "a pivot that may have had an effect is not redone",
		never, "^no rerun of the pivot$", "."},
	{"given-input-is-used", "the input that an operator gives is that of the next attempt",
		never, "^an operator gives an input$", "another input than the operator gave"},
	{"given-input-is-kept", "the fold keeps the input that an operator gives",
		drop, "^an operator gives an input$", "another input than the operator gave"},
	{"effects-wait-after-sleep", "an owner that slept sends nothing before it knows that its epoch goes on",
		never, "^a sleep, a hand-over$", "over when its owner woke up"},
	{"own-up-to-the-end", "an owner that slept has itself written all facts up to the end of its log",
		swap("w.epoch.confirmed >= w.end", "true"), "^a sleep, a hand-over$", "over when its owner woke up"},
	{"delayed-from-the-oldest", "a destination is delayed from the fact before its oldest unsent effect on",
		swap("d.after()", "d.entries[0].at"), "^a delayed dead letter$", "the watermark passed an effect"},
	{"new-owner-sends-delayed", "a new owner sends the effects of delayed destinations too",
		drop, "^a delayed dead letter$", "lost effect|is committed up to|does not record"},
	{"caught-up-is-empty", "a destination has caught up only when it has taken everything",
		swap("len(d.entries) == 0 && ", ""), "^a delayed dead letter$", "the watermark passed an effect"},
	{"delayed-work-waits-for-reports", "work for a delayed agent is read again only when the earlier reports are judged",
		swap(" || d.waits() && !x.outbox.judged", ""), "^delayed work, a crash$", "work is sent again although its report was durable"},
	{"reply-is-sent-again", "a new owner sends the replies of facts above the watermark, whether or not they owe work",
		swap("x.replies.reply(t, f)", "nil"), "^replies, a crash$", "the watermark passed an effect|lost effect"},
	{"processing-is-answered-once", "only the first step that begins is answered",
		always, "^replies, a second attempt$", "which does not owe it"},
	{"refused-reply-waits", "a reply that is refused is not given up at once",
		never, "^a refused reply$", "a reply is given up before its time"},
	{"reply-is-given-up", "a reply is given up when it is old",
		never, "^a refused reply$", "a reply is given up before its time"},
	{"sweep-waits-for-replies", "a task is not swept while a reply to it is owed",
		put("after = t.Last"), "^a delayed reply, a crash$", "the watermark passed an effect|lost effect"},
	{"refused-work-fails", "work that is refused for good is a failed attempt",
		drop, "^a refused request$", "lost effect"},
	{"loss-is-covered", "an accepted loss is passed over only as far as the operator gave up",
		swap("l.Start <= a.To", "true"), "^lost submissions$", "which nobody gave up"},
	{"read-on-behind-a-loss", "an owner reads on behind a loss that was accepted",
		drop, "^lost submissions$", "INV12"},
	{"only-newer-settings-are-adopted", "a partition adopts only settings of a later record than it has",
		swap("e.cfg.SettingsOffset > p", "e.cfg.SettingsOffset != p"), "^a hand-over, other settings$", "after those of offset"},
	{"barrier-before-newer-facts", "facts of a level are written only behind its barrier",
		never, "^a hand-over from an older node$", "is adopted with the barrier"},
	{"claim-passes-barrier", "a claim of a node below the barrier is void",
		never, "^a hand-over to an older node$", "does not understand the barrier"},
	{"level-comes-with-definitions", "an owner knows the level of the definitions that it judges by",
		drop, "^a hand-over from an older node$", "rejected as unknown"},
	{"judged-alone-after-an-end", "after an end of the process, what it read is judged one at a time",
		swap("careful: m.Owning", "careful: false"), "^a lethal input$", "livelock"},
	{"ended-process-is-counted", "a process that ended is counted for the input that it judged",
		put("s.Ended = 1"), "^a lethal input$", "livelock"},
	{"ended-too-often-is-rejected", "an input that ended three processes in a row is not judged again",
		never, "^a lethal input$", "livelock"},
	{"marked-while-judged", "an input is marked before it is judged alone",
		drop, "^a lethal input$", "livelock"},
	{"mark-is-lifted", "a mark stands only while its input is judged",
		drop, "^a lethal input$", "a mark stands"},
	{"rejected-stays-suspect", "an input that was rejected unseen stays a suspect until that is durable",
		swap(" && s.Ended < endedAtMost", ""), "^two lethal inputs", "livelock"},
	{"time-goes-back-by-agreement", "the time goes back only by a clock that was compared with the others",
		swap("e.agreed && ", ""), "^a wrong clock, three nodes$", "whose clock was not compared"},
	{"corrected-epoch-ends", "an epoch that corrects the time ends",
		never, "^a wrong clock$", "INV12|stuck|input skipped|livelock|is due"},
	{"all-live-tasks-are-corrected", "all live tasks are corrected",
		swap("correctedPage", "0"), "^a wrong clock$", "is due in days|days ahead"},
	{"corrected-tasks-are-planned", "a task whose times were corrected is planned again",
		never, "^a wrong clock, batches in parts$", "INV10"},
	{"corrected-attempt-has-all-its-time", "an attempt of the wrong time keeps its duration",
		swap("lasting(*completeBy, *started, at.to)", "min(*completeBy, at.to)"), "^a wrong clock$", "times out after less"},
	{"corrected-attempt-is-of-an-earlier-epoch", "an attempt of the wrong time was started before the epoch",
		drop, "^a wrong clock, an attempt without effect$", "an earlier owner may have sent"},
	{"corrected-retry-waits", "a retry of the wrong time keeps its pause",
		swap("lasting(*retryAt, *ended, at.to)", "min(*retryAt, at.to)"), "^a wrong clock, retries that wait$", "is tried again after less"},
	{"corrected-doubt-lasts", "an attempt in doubt stays so after its time was corrected",
		swap("longest+grace", "(longest+grace)*0"), "^a wrong clock, an undo, in doubt$", "while an attempt of the task may still act"},
	{"corrected-deadline-waits", "a deadline of the wrong time keeps its duration",
		swap("lasting(t.Deadline, max(t.SubmittedAt, t.ReopenedAt), to)", "min(t.Deadline, to)"), "^a wrong clock, a deadline$", "passes early"},
	{"corrected-hold-ends", "a request that was held at the wrong time expires",
		never, "^a wrong clock, a held cancel$", "is held for days"},
	{"resent-work-has-the-corrected-times", "work that is sent again has the corrected times",
		never, "^a wrong clock$", "days ahead"},
	{"resent-work-waits-for-corrected-times", "work is sent again only when its times are corrected",
		swap(" || x.epoch.correcting()", ""), "^a wrong clock$", "days ahead"},
	{"progress-extends-from-judging", "progress extends the complete-by time from the instant at which it is judged",
		swap("now.Add(2*beat)", "s.StartedAt.Add(2*beat)"), "^progress$", "its agent acts until|recorded twice in a heartbeat"},
	{"one-fact-each-heartbeat", "the end after progress covers all progress that is judged in the next heartbeat",
		swap("2*beat", "beat"), "^progress$", "recorded twice in a heartbeat"},
	{"passed-progress-is-covered", "progress needs no fact only if the complete-by time is late enough for it",
		swap("s.CompleteBy >= min(now.Add(beat), s.CapBy) && ", ""), "^progress, another attempt$", "its agent acts until"},
	{"late-progress-changes-nothing", "progress of an attempt that has ended changes nothing",
		swap(" || !t.Running(p.Step, p.Operation, p.Attempt)", ""), "^progress, another attempt$", "stops|INV|internal|livelock"},
	{"agent-counts-from-before-sending", "an agent counts from the instant before it sent the progress",
		swap("x.unanswered, ", ""), "^progress$", "its agent acts until"},
	{"doubt-lasts-until-the-cap", "an attempt in doubt may act until its cap, since its progress is still acknowledged",
		swap("s.LastEnd()", "s.CompleteBy"), "^progress, in doubt$", "while an attempt of the task may still act"},
	{"sleep-ends-at-its-time", "a step that sleeps is over at its time, and not before",
		swap("s.Wait.Until", "1"), "^a step that sleeps$", "is over before its time"},
	{"sleep-begins-once", "a step that sleeps does not begin again",
		swap(", at.Waits()", ""), "^a step that sleeps$", "stops|livelock|internal"},
	{"signal-is-taken-once", "a signal is taken by one step",
		swap("t.Kept = ", "_ = "), "^a signal$", "is taken by"},
	{"signal-timeout-waits-for-submissions", "a wait times out only when the signals from before its time are judged, in both inputs",
		swap("everyInput", "outcomeInputs"), "^a signal$", "a wait timed out before a signal"},
	{"corrected-sleep-has-all-its-time", "a sleep that began at the wrong time keeps its duration",
		swap("lasting(w.Until, started, to)", "min(w.Until, to)"), "^a wrong clock, a step that sleeps$", "is over before its time"},
	{"step-needs-permit", "no step starts before its task has a permit",
		swap("t.Permit.State == PermitStateGranted", "true"), "^permits, a parked task$", "without a permit"},
	{"permit-is-numbered", "each ask has another number",
		swap("!b.Repeat", "false"), "^permits$", "does not fit|INV12"},
	{"release-says-until-when", "a release says until when requests of the task may land",
		swap("t.QuietAt", "0"), "^permits, in doubt$", "are inside the limit"},
	{"permit-in-doubt-is-kept", "a permit goes to nobody else while requests of its task may land",
		swap("quiet > now", "false"), "^permits, in doubt$", "are inside the limit|does not follow"},
	{"grant-counts-once", "a task that has its permit takes no second grant",
		swap("granted(t", "!granted(t"), "^permits, a crash$", "does not fit|INV12"},
	{"ended-permit-is-freed", "a permit that was kept for a while is given on",
		swap("!= 0", "== 1"), "^permits, in doubt$", "does not fit|livelock|not freed|stuck|INV"},
	{"paused-limit-gives-nothing", "a limit that is paused gives no permit",
		swap("l.Paused != nil", "false"), "^permits, a paused limit$", "although it is paused"},
	{"resumed-limit-goes-on", "a limit that goes on gives what is free",
		drop, "^permits, a paused limit$", "of which a permit is free"},
	{"end-releases-permit", "the end of a task gives its permit back",
		drop, "^permits$", "does not fit|INV12"},
	{"attempt-asks-for-permit", "an attempt of a step with a limit asks for a permit",
		swap(`limit == ""`, "true"), "^limits$", "without a permit"},
	{"attempt-in-doubt-says-until-when", "the release of an attempt's permit says until when its requests may land",
		swap("p.QuietAt", "0"), "^limits, in doubt$", "are inside the limit|stops|INV"},
	{"permit-ends-with-its-attempt", "an attempt that is over gives its permit back",
		swap("p.runs(t)", "true"), "^limits$", "does not fit"},
	{"unused-permit-goes-back", "an attempt that does not start gives its permit back",
		swap("mayTake(t, p.Path, p.Operation)", "true"), "^limits, a cancel$", "does not fit"},
	{"undo-in-doubt-keeps-its-permit", "the permit of an undo without a report is kept until no request of it can land",
		put("if true { return 0 }"), "^limits, an undo in doubt$", "is kept until"},
	{"only-newer-limits-are-adopted", "a partition takes the object of a limit only if it is newer",
		swap("r.Offset <= l.state.Partition.LimitsOffset ||", ""), "^limits, an older object$", "INV|stops|is adopted"},
	{"rate-is-kept", "a limit gives no permit before it is due by its rate",
		swap("at < l.OpensAt()", "false"), "^limits, a rate$", "faster than its rate"},
	{"permit-waits-for-no-paused-agent", "a permit of an attempt whose agent is paused goes back",
		never, "^limits, an agent paused for good$", "starved"},
	{"corrected-rate-is-kept", "the next permit is due a whole time of one permit after a correction of the time",
		swap("to.Add(l.each())", "to"), "^a wrong clock, limits, a rate$", "gives two permits within"},
	{"corrected-rate-goes-on", "the next permit is due no later than that after a correction of the time",
		always, "^a wrong clock, limits, a rate$", "gives its next permit"},
	{"corrected-undo-in-doubt-lasts", "a request to undo a step that was sent at the wrong time may land for its whole duration",
		swap("lasting(q.UndoQuietAt, q.UndoQuietFrom, to)", "min(q.UndoQuietAt, to)"), "^a wrong clock, a rerun, an undo in doubt$",
		"while an attempt to undo it may still act"},
	{"rerun-corrects-undo-in-doubt", "a rerun of a task that ended at the wrong time waits only for the duration of its undo in doubt",
		drop, "^a wrong clock, a rerun, an undo in doubt$", "is due in days"},
	{"left-outlasts-its-run", "a step whose undo was skipped is named as left in later runs",
		swap("Left: s.Left, ", ""), "^a rerun, an undo that was left$", "was skipped: true"},
	{"left-is-not-undone", "a step whose undo was skipped is not undone again",
		swap("s.Undo.State != StepStateUndone", "s.Undo.State != StepStateUndone || s.Left"),
		"^a rerun, an undo that was left$", "a second time|internal"},
	{"nothing-starts-before", "nothing of a task starts before its time has come",
		swap("t.NotBefore != 0", "false"), "^a task that waits for its time$", "before the time of the task has come"},
	{"task-starts-at-its-time", "a task that waits for its time has a timer",
		never, "^a task that waits for its time$", "INV10"},
	{"not-before-ends-at-its-time", "that timer is due at its time, and not before",
		swap("t.NotBefore, Kind", "1, Kind"), "^a task that waits for its time$", "before its time"},
	{"deadline-counts-from-not-before", "a pause before the time of a task does not move its deadline",
		swap("max(t.HaltedAt, t.NotBefore)", "t.HaltedAt"), "^a task that waits for its time, a deadline$", "with the deadline|and it has the deadline"},
	{"corrected-delay-lasts", "a task that was accepted at the wrong time waits for its whole duration",
		swap("lasting(t.NotBefore, t.SubmittedAt, to)", "min(t.NotBefore, to)"), "^a wrong clock, a task that waits for its time$", "before its time"},
	{"undecided-stays-suspect", "an input that waits for its definition has not been judged",
		put("i.alone.judged(item)"), "^a lethal input, definitions", "livelock"}}...)

// edit changes a marked line. It returns the line unchanged if it does not apply.
type edit func(line string) string

// drop removes the line.
func drop(string) string { return "" }

// put inserts a statement before the line.
func put(statement string) edit {
	return func(line string) string { return statement + "; " + strings.TrimSpace(line) }
}

// swap replaces text that occurs exactly once in the line.
func swap(was, is string) edit {
	return func(line string) string {
		if strings.Count(line, was) != 1 {
			return line
		}
		return strings.Replace(line, was, is, 1)
	}
}

// condition finds the condition of an if or a case.
var condition = regexp.MustCompile(`^(\s*(?:if|case) (?:[^{]*; )?)(.*?)( \{|:)(\s*//.*)?$`)

// never makes the condition of an if or a case false.
func never(line string) string { return condition.ReplaceAllString(line, "${1}false && (${2})${3}") }

// always makes it true.
func always(line string) string { return condition.ReplaceAllString(line, "${1}true || (${2})${3}") }

var mark = regexp.MustCompile(`^\s*//mutant:(\S+)$`)

// place is a marked line of the product.
type place struct {
	file  string
	lines []string
	line  int
}

// marked returns the marked places by the name of their mark.
func marked(t *testing.T, root string) map[string][]place {
	t.Helper()
	places := map[string][]place{}
	for _, dir := range []string{"events", "scheduler", "supervisor", "agent", "projector", "internal"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(source), "//mutant:") {
				return err
			}
			lines := strings.Split(string(source), "\n")
			for i, text := range lines {
				if m := mark.FindStringSubmatch(text); m != nil {
					at := i + 1
					for mark.MatchString(lines[at]) {
						at++
					}
					places[m[1]] = append(places[m[1]], place{path, lines, at})
				}
			}
			return nil
		}))
	}
	return places
}

// apply returns the source with the marked line changed.
func (p *place) apply(e edit) (string, error) {
	was := p.lines[p.line]
	is := e(was)
	if is == was {
		return "", fmt.Errorf("%s:%d: the edit does not apply to %q", p.file, p.line+1, strings.TrimSpace(was))
	}
	lines := slices.Clone(p.lines)
	lines[p.line] = is
	return strings.Join(lines, "\n"), nil
}

// TestEachMutantIsMarkedOnce also checks that each mark has a row in the table, that each edit applies, and that some
// configuration matches each search.
func TestEachMutantIsMarkedOnce(t *testing.T) {
	t.Parallel()
	places := marked(t, "../../..")
	for _, m := range mutants {
		at := places[m.name]
		require.Len(t, at, 1, "mark the line of this rule once, with //mutant:%s on the line above: %s", m.name, m.rule)
		_, err := at[0].apply(m.edit)
		require.NoError(t, err, "mutant %s: %s", m.name, m.rule)
		require.True(t, slices.ContainsFunc(model.Configurations(), func(c model.Bounded) bool {
			return regexp.MustCompile(m.search).MatchString(c.Name)
		}), "mutant %s: no configuration is named %s", m.name, m.search)
		delete(places, m.name)
	}
	require.Empty(t, notBySeeds(places), "these marks have no row in the table of mutants")
}

// TestModelCatchesMutants runs the search on the product with one marked line changed at a time. It takes a minute:
// SAGALOG_MUTANTS=1 go test ./internal/sim/model -run '^TestModelCatchesMutants$' -v
func TestModelCatchesMutants(t *testing.T) {
	if os.Getenv("SAGALOG_MUTANTS") == "" {
		t.Skip("compiles the product with its mutants; to run it: SAGALOG_MUTANTS=1 go test ./internal/sim/model -run '^TestModelCatchesMutants$' -v")
	}
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	places := marked(t, root)
	switched, alone := &build{sources: map[string]*source{}}, map[string]*build{}
	chosen := ofThisTurn(mutants)
	t.Logf("%d of %d mutants", len(chosen), len(mutants))
	for _, m := range chosen {
		require.Len(t, places[m.name], 1)
		at := &places[m.name][0]
		done, err := switched.add(m.name, at, m.edit)
		require.NoError(t, err)
		if !done {
			changed, err := at.apply(m.edit)
			require.NoError(t, err)
			alone[m.name] = &build{files: map[string]string{at.file: changed}}
		}
	}
	program := switched.compile(t, root)
	out, err := search(program, "", "^a crash$")
	require.NoError(t, err, "the search fails although no mutant is selected:\n%s", out)
	for _, m := range chosen {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			program := program
			if b := alone[m.name]; b != nil {
				program = b.compile(t, root)
			}
			m.run(t, program)
		})
	}
}

func (m *mutant) run(t *testing.T, program string) {
	out, err := search(program, m.name, m.search)
	require.Error(t, err, "nothing breaks without the rule: %s\n%s", m.rule, out)
	found := regexp.MustCompile(`breaks after (\d+) steps: (.*)`).FindSubmatch(out)
	require.NotNil(t, found, "%s", out)
	require.Regexp(t, m.breaks, string(found[2]), "%s", out)
	t.Logf("%s: caught after %s steps: %s", m.rule, found[1], found[2])
}

// search runs the search of the configurations with the mutant, or with none.
func search(program, name, only string) ([]byte, error) {
	most := 150_000
	if _, is := deep[name]; is {
		most = 4_000_000
	}
	cmd := exec.Command(program, "-test.timeout=30m", "-test.run=TestModelHolds", fmt.Sprintf("-model.cap=%d", most), "-model.only="+only)
	cmd.Env = append(os.Environ(), mutantVariable+"="+name)
	return cmd.CombinedOutput()
}
