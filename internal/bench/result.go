package bench

import (
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"
)

// Result holds the figures of a run. The name of each figure ends in its unit. Figures that do not apply to the run are
// left out.
type Result struct {
	Run     string `json:"run"`
	*Origin        // nil if unknown
	// Durability describes the promise of an acknowledgement.
	Durability string `json:"durability"`
	Broker     string `json:"broker"`
	Agents     string `json:"agents"`
	Namespace  string `json:"namespace"`
	Cores      int    `json:"cores"`
	Load       string `json:"load"`
	Backends   string `json:"backends,omitzero"`
	// Interrupted says that Ctrl-C ended the window early.
	Interrupted bool `json:"interrupted,omitzero"`
	// Notes explain the figures, and why some are left out.
	Notes   []string `json:"notes,omitempty"`
	Seconds float64  `json:"seconds" unit:"s" label:"measured"`

	// RateAsked is the rate of --rate, and RateSent the rate of the acknowledged submissions. RateReached is nil
	// without --rate.
	RateAsked   float64 `json:"rate_asked_per_second,omitzero" unit:"/s" label:"rate asked"`
	RateSent    float64 `json:"rate_sent_per_second,omitzero" unit:"/s" label:"rate sent and acknowledged"`
	RateReached *bool   `json:"rate_reached,omitzero"`

	Tasks          int64   `json:"tasks,omitzero" unit:"tasks" label:"ended in the measured time"`
	TasksPerSecond float64 `json:"tasks_per_second,omitzero" unit:"/s" label:"tasks"`
	FactsPerSecond float64 `json:"facts_per_second,omitzero" unit:"/s" label:"facts"`
	CPUPerTask     float64 `json:"cpu_us_per_task,omitzero" unit:"us/task" label:"CPU per task, all included"`
	StepsPerSecond float64 `json:"steps_per_second,omitzero" unit:"/s" label:"steps done"`
	CPUPerStep     float64 `json:"cpu_us_per_step,omitzero" unit:"us/step" label:"CPU per step done, all included"`
	CoresUsed      float64 `json:"cores_used,omitzero" unit:"cores" label:"CPU used"`

	// E2ESamples is the number of tasks whose latencies were measured, or nil if none were. A small number gives no
	// p99.
	E2ESamples   *int64  `json:"e2e_samples,omitzero" label:"end to end: tasks due in the measured time, and ended"`
	E2EP50       float64 `json:"e2e_p50_ms,omitzero" unit:"ms" label:"end to end p50"`
	E2EP99       float64 `json:"e2e_p99_ms,omitzero" unit:"ms" label:"end to end p99"`
	E2EMax       float64 `json:"e2e_max_ms,omitzero" unit:"ms" label:"end to end max"`
	UntailedP50  float64 `json:"e2e_without_tail_p50_ms,omitzero" unit:"ms" label:"  of tasks that met no tail, p50"`
	UntailedP99  float64 `json:"e2e_without_tail_p99_ms,omitzero" unit:"ms" label:"  of tasks that met no tail, p99"`
	UntailedMax  float64 `json:"e2e_without_tail_max_ms,omitzero" unit:"ms" label:"  of tasks that met no tail, max"`
	SubmitPerSec float64 `json:"submissions_per_second,omitzero" unit:"/s" label:"submissions acknowledged"`
	Submissions  int64   `json:"submissions,omitzero" unit:"submissions" label:"acknowledged in the measured time"`
	Dropped      int64   `json:"dropped" label:"submissions refused or without an answer"`
	AckSamples   *int64  `json:"ack_samples,omitzero" label:"submissions due in the measured time, and acknowledged"`
	SubmitP50    float64 `json:"submit_p50_ms,omitzero" unit:"ms" label:"submit p50 (from sending)"`
	SubmitP99    float64 `json:"submit_p99_ms,omitzero" unit:"ms" label:"submit p99"`
	SubmitMax    float64 `json:"submit_max_ms,omitzero" unit:"ms" label:"submit max"`
	AckP50       float64 `json:"ack_p50_ms,omitzero" unit:"ms" label:"acknowledgement p50 (from due)"`
	AckP99       float64 `json:"ack_p99_ms,omitzero" unit:"ms" label:"acknowledgement p99"`
	AckMax       float64 `json:"ack_max_ms,omitzero" unit:"ms" label:"acknowledgement max"`
	CPUPerSubmit float64 `json:"cpu_us_per_submission,omitzero" unit:"us/submission" label:"CPU per submission, all included"`
	Judged       float64 `json:"accepted_after_s,omitzero" unit:"s" label:"until the engine had accepted them all"`

	PeakRSS      float64 `json:"peak_rss_mib,omitzero" unit:"MiB" label:"memory, peak RSS"`
	RSS          float64 `json:"rss_mib,omitzero" unit:"MiB" label:"memory, RSS at the end"`
	Heap         float64 `json:"heap_live_mib,omitzero" unit:"MiB" label:"memory, live heap at the end"`
	OwnTables    float64 `json:"bench_tables_mib,omitzero" unit:"MiB" label:"  of it the benchmark's own tables"`
	HeapSlope    float64 `json:"heap_mib_per_million,omitzero" unit:"MiB/million tasks" label:"rise of the live heap, without own tables"`
	RSSSlope     float64 `json:"rss_mib_per_million,omitzero" unit:"MiB/million tasks" label:"rise of RSS, without own tables"`
	TenMillion   float64 `json:"rss_mib_at_10_million,omitzero" unit:"MiB" label:"RSS with 10 million tasks, by that rise"`
	Backlog      int64   `json:"backlog_tasks,omitzero" label:"tasks that had not ended at the end"`
	LogBytes     float64 `json:"log_bytes_per_task,omitzero" unit:"B/task" label:"facts in the log per task"`
	ItemBytes    float64 `json:"log_bytes_per_item,omitzero" unit:"B/item" label:"facts in the log about an item"`
	BrokerBytes  float64 `json:"broker_bytes_per_task,omitzero" unit:"B/submitted task" label:"files of the broker per submitted task"`
	StateBytes   float64 `json:"state_bytes_per_task,omitzero" unit:"B/submitted task" label:"files of the state per submitted task"`
	AllocsTask   float64 `json:"allocations_per_task,omitzero" unit:"/task" label:"allocations per task (this process)"`
	AllocBytes   float64 `json:"allocated_bytes_per_task,omitzero" unit:"B/task" label:"allocated per task (this process)"`
	Failures     int64   `json:"failed_attempts,omitzero" label:"attempts that failed"`
	Timeouts     int64   `json:"timeouts" label:"attempts that timed out"`
	Badly        int64   `json:"undone_or_parked,omitzero" label:"tasks undone or parked"`
	FlightBefore float64 `json:"in_flight_before,omitzero" label:"attempts in flight before the backends slowed"`
	FlightAfter  float64 `json:"in_flight_after,omitzero" label:"attempts in flight after"`
	RateBefore   float64 `json:"tasks_per_second_before,omitzero" unit:"/s" label:"tasks before the backends slowed"`
	RateAfter    float64 `json:"tasks_per_second_after,omitzero" unit:"/s" label:"tasks after"`

	// CoresWithout and CoresWith are medians over the pairs of parts; PageCPU is the median of the difference within a pair, for one page.
	Pages        int     `json:"pages,omitzero" label:"open pages, in half of the measured time"`
	CoresWithout float64 `json:"cores_without_pages,omitzero" unit:"cores" label:"CPU without pages (median of the pairs)"`
	CoresWith    float64 `json:"cores_with_pages,omitzero" unit:"cores" label:"CPU with pages"`
	PageCPU      float64 `json:"page_cpu_ms_per_second,omitzero" unit:"ms/s" label:"CPU of one page (median of the pairs)"`
	PageCPULeast float64 `json:"page_cpu_least_ms_per_second,omitzero" unit:"ms/s" label:"  least of the pairs"`
	PageCPUMost  float64 `json:"page_cpu_most_ms_per_second,omitzero" unit:"ms/s" label:"  most"`
	PageReads    float64 `json:"page_reads_per_second,omitzero" unit:"/s" label:"requests of one page"`
	PageEvents   float64 `json:"page_events_per_second,omitzero" unit:"/s" label:"events of the stream to one page"`
	PageBytes    float64 `json:"page_kib_per_second,omitzero" unit:"KiB/s" label:"bytes read by one page"`

	// Facts is the number of facts that the run added to the log. For replay it counts all records, including void ones.
	Facts          int64   `json:"facts,omitzero" label:"facts that this run wrote to the log"`
	Folded         int64   `json:"facts_folded,omitzero" label:"facts folded from nothing"`
	RecordsBefore  int64   `json:"records_before,omitzero" label:"records that the log had before this run"`
	FoldRate       float64 `json:"fold_facts_per_second,omitzero" unit:"/s" label:"rate of that fold"`
	RebuildRate    float64 `json:"rebuild_facts_per_second,omitzero" unit:"/s" label:"facts of a rebuild until ready"`
	ReadyNothing   float64 `json:"ready_from_nothing_ms,omitzero" unit:"ms" label:"ready without state"`
	ReadyState     float64 `json:"ready_from_checkpoint_ms,omitzero" unit:"ms" label:"ready from a checkpoint"`
	CPUPerFact     float64 `json:"cpu_us_per_fact,omitzero" unit:"us/fact" label:"CPU per folded fact"`
	AllocsFact     float64 `json:"allocations_per_fact,omitzero" unit:"/fact" label:"allocations per folded fact"`
	HashesEqual    int     `json:"state_hashes_equal,omitzero" label:"partitions whose state hash is that of the engine"`
	Kills          int     `json:"kills,omitzero" label:"nodes killed, with what followed measured"`
	KillsAsked     int     `json:"kills_asked,omitzero" label:"  asked for"`
	TakenOver      int     `json:"partitions_taken_over,omitzero" label:"partitions taken over"`
	TakeoverN      int     `json:"takeover_samples,omitzero" label:"  of them where a task waited (first new fact is theirs)"`
	TakeoverP50    float64 `json:"takeover_p50_ms,omitzero" unit:"ms" label:"kill -9 to first new fact p50"`
	TakeoverP99    float64 `json:"takeover_p99_ms,omitzero" unit:"ms" label:"kill -9 to first new fact p99"`
	TakeoverMax    float64 `json:"takeover_max_ms,omitzero" unit:"ms" label:"kill -9 to first new fact max"`
	ClaimP50       float64 `json:"claim_p50_ms,omitzero" unit:"ms" label:"kill -9 to the successor's claim p50"`
	ClaimMax       float64 `json:"claim_max_ms,omitzero" unit:"ms" label:"kill -9 to the successor's claim max"`
	Disturbed      bool    `json:"disturbed"`
	DisturbedShare float64 `json:"disturbed_share" label:"machine used by others"`
	*Verdict               // nil if nothing was checked
	VoidRecords    int64   `json:"void_records,omitzero" label:"void records in the log"`
	CheckedIn      float64 `json:"check_seconds,omitzero" unit:"s" label:"time of the check"`
	// Topics are the bytes of a task by topic, if --bytes asked for them.
	Topics  []TopicBytes `json:"topics,omitempty"`
	Samples []Sample     `json:"samples,omitempty"`
	// labels replace the labels of fields that have another meaning in this run.
	labels map[string]string
}

// note adds a note for the reader.
func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// leastForP99 is how many durations a p99 needs. With fewer, the p99 equals the maximum, which is already reported.
const leastForP99 = 100

// keepP99 returns a p99 if there are enough durations. Otherwise it notes why the p99 is missing.
func (r *Result) keepP99(what string, p99 float64, n int64) float64 {
	if n > 0 && n < leastForP99 {
		r.note("%s p99: left out; there are %d samples, and it needs %d", what, n, leastForP99)
	}
	if n < leastForP99 {
		return 0
	}
	return p99
}

// disturbance is the share of the machine that others may use before a run counts as disturbed. It is not zero, because some of
// the kernel's work for this process is counted as theirs, and no machine is completely idle.
const disturbance = 0.04

// setDisturbance compares the CPU time of the machine between two readings with that of this run.
func (r *Result) setDisturbance(from, to reading) {
	whole := to.whole - from.whole
	if whole <= 0 {
		return
	}
	others := (to.busy - from.busy) - (to.cpu - from.cpu)
	r.DisturbedShare = round(max(0, float64(others)/float64(whole)), 3)
	r.Disturbed = r.DisturbedShare > disturbance
}

func round(v float64, digits int) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	p := math.Pow10(digits)
	return math.Round(v*p) / p
}

func ms(d time.Duration) float64 { return round(float64(d)/float64(time.Millisecond), 3) }

// per divides. It returns 0 for a divisor that is not positive.
func per(v float64, n int64) float64 {
	if n <= 0 {
		return 0
	}
	return v / float64(n)
}

// Print writes the table that a person reads.
func (r *Result) Print(out io.Writer) error {
	fmt.Fprintf(out, "sagalog bench %s\n", r.Run)
	program, machine, flags := "", "", ""
	if r.Origin != nil {
		program, machine, flags = r.program(), r.machine(r.Cores), strings.Join(r.Flags, " ")
	}
	for _, line := range [][2]string{
		{"program", program}, {"machine", machine}, {"flags", flags}, {"load", r.Load}, {"backends", r.Backends}, {"agents", r.Agents}, {"broker", r.Broker}, {"durability", r.Durability}, {"namespace", r.Namespace},
	} {
		if line[1] != "" {
			fmt.Fprintf(out, "  %-11s%s\n", line[0], line[1])
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w)
	printFigures(w, reflect.ValueOf(r).Elem(), r.labels)
	if err := w.Flush(); err != nil {
		return err
	}
	if len(r.Topics) > 0 {
		printTopics(out, r.Topics)
	}
	if len(r.Notes) > 0 {
		fmt.Fprintln(out)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(out, "  note: %s\n", n)
	}
	if r.Verdict == nil {
		fmt.Fprintln(out, "\n  check: none; the log existed before, and its submissions are not known here")
	} else {
		r.Verdict.print(out)
	}
	switch {
	case r.Disturbed:
		fmt.Fprintf(out, "  DISTURBED: others used %.1f %% of this machine (%d cores) during the run, so the figures are worse than without them\n", 100*r.DisturbedShare, r.Cores)
	default:
		fmt.Fprintf(out, "  undisturbed: others used %.1f %% of this machine (%d cores)\n", 100*r.DisturbedShare, r.Cores)
	}
	if r.Interrupted {
		fmt.Fprintln(out, "  interrupted: the measured time is shorter than requested")
	}
	return nil
}

// printFigures prints each figure that has a label and a value, and "dropped" and "timeouts" even if they are zero.
func printFigures(w io.Writer, v reflect.Value, labels map[string]string) {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		label := f.Tag.Get("label")
		if other := labels[f.Name]; other != "" {
			label = other
		}
		if label == "" || f.Name == "DisturbedShare" || v.Field(i).IsZero() && strings.Contains(f.Tag.Get("json"), "omitzero") {
			continue
		}
		var text string
		switch x := v.Field(i).Interface().(type) {
		case float64:
			text = figure(x)
		case *int64:
			text = fmt.Sprint(*x)
		default:
			text = fmt.Sprint(x)
		}
		fmt.Fprintf(w, "  %s\t%s\t %s\t\n", label, text, f.Tag.Get("unit"))
	}
}

// figure formats a number with as many digits as a person compares.
func figure(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1000:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
