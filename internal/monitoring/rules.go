package monitoring

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Rule is an alert.
type Rule struct {
	Name string
	// Expr is PromQL. A number of seconds in braces, such as {300s}, is a bound in seconds.
	Expr string
	// For is how long Expr must hold; zero means that the alert fires at once.
	For time.Duration
	// Critical says that it must wake somebody.
	Critical bool
	// Summary is one line, Description says what it means and what to do.
	Summary, Description string
	// Command shows more.
	Command string
	// Waits is PromQL whose first result has the label waiting_for: the main reason why the steps wait that the alert is about. %s stands for the
	// label Of of the alert.
	Waits, Of string
	// Over says when the alert ends, if that is not as soon as the fault is gone.
	Over string
}

// Options change the rules.
type Options struct {
	// Divide makes all durations shorter, so that a test need not wait for hours: 60 turns minutes into seconds. Zero changes nothing.
	Divide int
}

// runbook is where docs/alerts.md is read.
const runbook = "https://github.com/sagalog/sagalog/blob/main/docs/alerts.md"

// Rules are all alerts.
var Rules = []Rule{
	{
		Name: "SagalogTasksParked", Expr: `sum by (workflow) (sagalog_tasks{state="error"}) > 0`, For: 5 * time.Minute,
		Summary:     "{{ $value }} tasks of workflow {{ $labels.workflow }} are parked",
		Description: "They wait for an operator. Remove the cause that they name, then retry them (sagalog task retry) or cancel them. `sagalog task get ID` says if a failed step may have taken effect all the same: look at some of them before you retry many. The command counts them by reason; if the reasons differ only in the names of tasks, `--by error_code` in its place counts the faults. `sagalog task list --state parked` names them. A task that is being undone cannot be cancelled: retry the undo, or undo the step by hand and complete the undo. Skipping the undo leaves what the step did. docs/waiting.md, section operator, lists all options.",
		Command:     "sagalog task count --by reason --state parked --workflow {{ $labels.workflow }}",
	},
	{
		Name: "SagalogTasksParkedLong", Expr: `max(sagalog_task_oldest_seconds{state="error"}) > {3600s}`, Critical: true,
		Summary:     "a task has been parked for {{ $value | humanizeDuration }}",
		Description: "Nobody has taken care of it, and what it did so far stays half done. Remove the cause that it names, then retry or cancel it.",
		Command:     "sagalog task list --state parked --older-than 1h",
	},
	{
		Name: "SagalogUndoRate", For: 15 * time.Minute,
		Expr:        `sum by (workflow) (rate(sagalog_tasks_ended_total{state="undone"}[15m])) / sum by (workflow) (rate(sagalog_tasks_ended_total[15m])) > 0.05`,
		Summary:     "{{ $value | humanizePercentage }} of the tasks of workflow {{ $labels.workflow }} that end are undone",
		Description: "Each says why. If one service refuses what it used to accept, pause its agent until it is repaired.",
		Command:     "sagalog task list --state undone --workflow {{ $labels.workflow }} --since 1h",
		Over:        "Up to 15 minutes after the last such task, because the rate covers 15 minutes.",
	},
	{
		Name: "SagalogAgentMissing", For: time.Minute, Critical: true,
		Expr:        `sum by (agent) (sagalog_agent_ready_steps) > 0 and on (agent) max by (agent) (sagalog_agent_live_instances) == 0`,
		Summary:     "{{ $value }} attempts wait for agent {{ $labels.agent }}, and no instance of it runs",
		Description: "Start an instance, or correct the agent's name in the workflow. The attempts start as soon as one sends heartbeats. Attempts that were sent to an instance before it died are running, and not among these: they go on when an instance reads them, or end at their complete_within. An agent in YAML is started by: sagalog serve --roles agent --agents DIR --brokers HOST:PORT --node NAME, with --seal-key-file FILE if the namespace is sealed.",
		Command:     "sagalog agents list",
	},
	{
		Name: "SagalogAgentBacklog", Expr: `max by (agent) (sagalog_agent_ready_oldest_seconds) > {300s}`, For: 5 * time.Minute,
		Summary:     "attempts have waited {{ $value | humanizeDuration }} for agent {{ $labels.agent }}",
		Description: "The annotation waiting_for says why most of them wait: capacity (its instances are busy), paused, or agent (no instance offers the operation). Start more instances, or raise their concurrency if their service can take it; resume it; or start one.",
		Command:     "sagalog agents list",
		Waits:       `sum by (waiting_for) (sagalog_agent_waiting_steps{agent="%s"}) > 0`, Of: "agent",
	},
	{
		Name: "SagalogStepsWait", Expr: `sum by (waiting_for) (sagalog_steps_waiting{waiting_for=~"key|owner"}) > 0`, For: 5 * time.Minute,
		Summary:     "{{ $value }} steps and tasks wait for: {{ $labels.waiting_for }}",
		Description: "These need an operator. key: an agent or a node lacks a key of sealed content. owner: tasks have not been planned since their partition was taken over, or their owner is late (for partitions without an owner there is SagalogPartitionUnowned). `sagalog task get ID` says more about a task, and docs/waiting.md has a section about each kind.",
		Command:     "sagalog task list --waiting-for {{ $labels.waiting_for }}",
	},
	{
		Name: "SagalogStepFailing", For: 10 * time.Minute,
		Expr:        `sum by (workflow, step) (rate(sagalog_attempts_total{outcome=~"failed|timed_out"}[10m])) / sum by (workflow, step) (rate(sagalog_attempts_total[10m])) > 0.2`,
		Summary:     "{{ $value | humanizePercentage }} of the attempts of step {{ $labels.step }} of workflow {{ $labels.workflow }} fail or time out",
		Description: "Retries may still bring the tasks through. The command shows how attempts end; `sagalog task list --workflow WORKFLOW --failed-step STEP` lists the tasks whose step has not succeeded yet, with the errors. Pause the agent if its service needs time to recover.",
		Command:     "sagalog stats --workflow {{ $labels.workflow }} --step {{ $labels.step }} --since 30m --every 5m",
		Over:        "Up to 10 minutes after the last failure, because the rate covers 10 minutes.",
	},
	{
		Name: "SagalogDeadlinesPassed", Expr: `sum by (workflow) (increase(sagalog_deadlines_passed_total[15m])) > 0`,
		Summary:     "deadlines of tasks of workflow {{ $labels.workflow }} passed",
		Description: "A task before its pivot is then undone; past its pivot it goes on, and one that is paused or parked waits. The command names the tasks, the newest first. The annotation waiting_for says what most steps of all tasks are waiting for, `sagalog alert list` what each of these tasks waits for, and `sagalog stats --workflow WORKFLOW` how long its steps took and waited before. If a service is slow, `sagalog task pause --workflow WORKFLOW --state pending` keeps those that have not begun from being undone, and their deadlines move when they are resumed; another process with the agent, or more concurrency, works off the others, and `sagalog task rerun` begins those again that were undone. A call that was broken off may have taken effect.",
		Command:     "sagalog alert list --open=false --kind deadline_passed",
		Waits:       `sum by (waiting_for) (sagalog_steps_waiting) > 0`,
		Over:        "15 minutes after the last such deadline.",
	},
	{
		Name: "SagalogDeadLetters", Expr: `sum by (reason) (increase(sagalog_dead_letters_total[15m])) > 0`,
		Summary:     `{{ $value | printf "%.0f" }} inputs were rejected in 15 minutes: {{ $labels.reason }}`,
		Description: "They are in the dead-letter topics with the reason. `sagalog dlq show ID` shows the bytes, the key and the headers, which may tell who sent them. Remove the cause, then redrive them (`sagalog dlq redrive --rejected-for REASON`). The original bytes are sent again, so what is unreadable stays so: correct the sender, let it submit again, and dismiss those after which a task with the same ID was accepted (`sagalog dlq dismiss --sent-again`).",
		Command:     "sagalog dlq list --open",
		Over:        "15 minutes after the last rejection, whether or not anybody took care of it. `sagalog dlq list --open` says what is left, and the metric `sagalog_dead_letters_open` how many: a rule of your own on `sum(sagalog_dead_letters_open) > 0` ends when all are redriven or dismissed. The webhook sends no message about dead letters.",
	},
	{
		Name: "SagalogInputLag", Expr: `max by (topic) (sagalog_input_lag_seconds) > {60s}`, For: 5 * time.Minute,
		Summary:     "records of topic {{ $labels.topic }} have waited {{ $value | humanizeDuration }} to be judged",
		Description: "The owners are too slow, stand still, or cannot read the topic. /readyz of each node says which.",
		Command:     "sagalog partitions list",
	},
	{
		Name: "SagalogOpenTransaction", Expr: `max by (topic, partition) (sagalog_open_transaction_seconds or sagalog_input_blocked_seconds) > {60s}`, For: time.Minute,
		Summary:     "topic {{ $labels.topic }}, partition {{ $labels.partition }} cannot be read for {{ $value | humanizeDuration }}",
		Description: "A producer left a transaction open. Nothing behind its first record is read, and no timer that waits for the topic fires in that partition. The command and the log of the node print the kafka-transactions command that aborts it. If they print none, a leader does not answer.",
		Command:     "sagalog doctor --brokers HOST:PORT",
	},
	{
		Name: "SagalogKeysUnread", Expr: `max by (instance) (sagalog_keys_read_age_seconds) > {30s}`, For: time.Minute,
		Summary:     "{{ $labels.instance }} has not read the topic of keys for {{ $value | humanizeDuration }}",
		Description: "The process does not notice erasures. After a minute it decrypts nothing, and all that needs a key waits. Its log says why: check the leader of the topic of keys, and the permissions of the process.",
		Command:     "sagalog doctor --brokers HOST:PORT",
	},
	{
		Name: "SagalogHeldForKeys", Expr: `(sum(sagalog_inputs_held_for_keys) or vector(0)) + (sum(sagalog_tasks_held_for_keys) or vector(0)) > 0`, For: 30 * time.Second,
		Summary:     "{{ $value }} inputs and tasks wait because a node cannot decrypt their content",
		Description: "The log of the node says why, once a minute. If its key file lacks a key, copy the file of the other nodes to it now: after a minute reports park their tasks, and after ten minutes submissions become dead letters.",
		Command:     "sagalog key list --brokers HOST:PORT",
	},
	{
		Name: "SagalogAgentLacksKey", Expr: `max by (agent) (sagalog_agent_keyless_instances) > 0`, For: 2 * time.Minute,
		Summary:     "{{ $value }} instances of agent {{ $labels.agent }} lack the key of sealed requests",
		Description: "They refuse those requests and get them again, so the steps wait (waiting_for key). None of that uses up an attempt, although the tasks count it under FAILURES. The command names the instances and the keys. Copy the key file of the nodes to where they run (--seal-key-file, or DialConfig.SealKeyFile); a changed file is read within a second. A step then goes on at its next attempt (UNTIL in `sagalog task get ID`); `sagalog task retry ID` starts it at once.",
		Command:     "sagalog agents list",
		Over:        "A minute after the last request that an instance could not open.",
	},
	{
		Name: "SagalogPartitionUnowned", For: 30 * time.Second, Critical: true,
		Expr:        `(count(count by (partition) (sagalog_partition_owned == 1)) or vector(0)) < scalar(max(sagalog_partitions))`,
		Summary:     "only {{ $value }} partitions are owned by a node that Prometheus reaches",
		Description: "Nothing is decided in the others: their tasks wait (waiting_for owner), and so do submissions, which are not known as tasks yet. (If Prometheus reaches no node at all, SagalogDown says so.) The column OWNER says which owner is silent, or where a partition has stopped. Start that node again with the flags that it had, or another one with the role owner; look at the log of those that run.",
		Command:     "sagalog partitions list",
	},
	{
		Name: "SagalogPartitionStopped", Expr: `max by (partition, reason) (sagalog_partition_stopped) == 1`, Critical: true,
		Summary:     "partition {{ $labels.partition }} has stopped ({{ $labels.reason }}) and needs an operator",
		Description: "input_lost: an input lost records (docs/lost.md). log: the log of the partition lost records or cannot be folded. state: the state that the node stores cannot be used; look at its disk. level: the node needs a newer build. closed: the namespace was copied, so start nodes in the copy. For other reasons, see the log of the node. The command shows the error itself, as do `sagalog doctor` and /readyz of the node.",
		Command:     "sagalog nodes list",
	},
	{
		Name: "SagalogTakeovers", Expr: `sum(increase(sagalog_takeovers_total{cause!="stopped"}[30m])) > 3`,
		Summary:     `{{ $value | printf "%.0f" }} partitions were taken over from nodes that were silent or faulty`,
		Description: "Nodes crash, hang or lose the brokers. The column TAKEN OVER names the earlier owner while its partitions are elsewhere; `sagalog partitions takeovers PARTITION` names it afterwards too. Look at the node's log and at the memory, disk and network of its machine.",
		Command:     "sagalog partitions list",
		Over:        "30 minutes after the take-overs.",
	},
	{
		Name: "SagalogEffectsStuck", Expr: `max by (class) (sagalog_outbox_oldest_seconds) > {120s}`, For: 2 * time.Minute,
		Summary:     "an effect of class {{ $labels.class }} has waited {{ $value | humanizeDuration }} for the brokers",
		Description: "A topic takes no records. /readyz and the metric sagalog_owner_oldest_effect_seconds name it. Nothing is lost; it is sent when the topic takes records again.",
		Command:     "sagalog doctor --brokers HOST:PORT",
	},
	{
		Name: "SagalogTimersLate", Expr: `histogram_quantile(0.99, sum by (le) (rate(sagalog_timer_lateness_seconds_bucket[5m]))) > 5`, For: 5 * time.Minute,
		Summary:     "1 in 100 timers is judged {{ $value | humanizeDuration }} late or later",
		Description: "The owners have more to do than they can, or inputs cannot be read. See SagalogInputLag and SagalogOpenTransaction.",
		Command:     "sagalog partitions list",
		Over:        "Up to 5 minutes after the last late timer, because the rate covers 5 minutes.",
	},
	{
		Name: "SagalogClock", Expr: `max by (instance, against) (abs(sagalog_clock_offset_seconds)) > 10`, For: 2 * time.Minute,
		Summary:     "the clock of {{ $labels.instance }} differs by {{ $value | humanizeDuration }} from that of the {{ $labels.against }}",
		Description: "Synchronize the clocks (NTP). From a minute on, the node decides nothing.",
		Command:     "sagalog doctor --brokers HOST:PORT",
	},
	{
		Name: "SagalogProjectionLag", Expr: `max(sagalog_projection_lag_seconds) > {30s}`, For: 5 * time.Minute,
		Summary:     "the store of a node is {{ $value | humanizeDuration }} behind the log",
		Description: "What people and programs read there is old, and a take-over would take longer. Look at the disk of the node.",
		Command:     "sagalog partitions list",
	},
	{
		Name: "SagalogDiskFull", Expr: `predict_linear(sagalog_disk_free_bytes[6h], {86400s}) < 0`, For: time.Hour,
		Summary:     "the disk of {{ $labels.instance }} will be full within a day",
		Description: "Make room, or move the data directory to a larger disk. A node exits when its disk is full. This alert extrapolates the last six hours; SagalogDiskLow watches what is left.",
		Command:     "sagalog nodes list",
	},
	{
		Name: "SagalogDiskLow", Expr: `min by (instance) (sagalog_disk_free_bytes) < 1073741824`, Critical: true,
		Summary:     "the disk of {{ $labels.instance }} has only {{ $value | humanize1024 }} bytes left",
		Description: "Make room now, or move the data directory to a larger disk. A node exits when its disk is full, and needs 128 MiB to start again. If nothing else can go, you may delete the folder state in the data directory of the stopped node: it then folds the log again. Move the folder checkpoints to another disk, and do not delete it: a copy of the namespace can be made from it. Never delete the folder broker, in which `sagalog dev` keeps the log.",
		Command:     "sagalog nodes list",
	},
	{
		Name: "SagalogCarryOverdue", Expr: `max(sagalog_carry_age_seconds) > 0.5 * max(sagalog_keep_log_seconds) and max(sagalog_keep_log_seconds) > 0`, For: time.Hour,
		Summary:     "the state of a partition has not been carried for {{ $value | humanizeDuration }}",
		Description: "The log of the partition grows, because it is not cut. The log output of the node that owns the partition may say why: a store that cannot be read, or a clock that is suspect.",
		Command:     "sagalog doctor --brokers HOST:PORT",
	},
	{
		Name: "SagalogScheduleMissed", Expr: `increase(sagalog_schedule_fires_total{result="missed"}[1h]) > 0`,
		Summary:     "due times of schedule {{ $labels.schedule }} were missed",
		Description: "Nobody decided at those times, and they were older than catch_up afterwards. Fill in what is needed with a trigger.",
		Command:     "sagalog schedule get {{ $labels.schedule }}",
		Over:        "An hour after the last missed time.",
	},
	{
		Name: "SagalogWebhookFailing", Expr: `sum(rate(sagalog_webhook_deliveries_total{outcome="failed"}[15m])) > 0 or max(sagalog_webhook_oldest_seconds) > {900s}`, For: 15 * time.Minute,
		Summary:     "messages of the webhook are not delivered",
		Description: "The log of the nodes shows what the receiver answers. No task is affected. Each message is tried for 24 hours, and then given up.",
		Command:     "sagalog webhook test --webhook URL --webhook-secret-file FILE",
		Over:        "Up to 15 minutes after the last failure, because the rate covers 15 minutes.",
	},
	{
		Name: "SagalogNodeMissing", For: 2 * time.Minute,
		Expr:        `max by (node, namespace_id) (max_over_time(sagalog_node_info{owner="true"}[1h])) unless max by (node, namespace_id) (sagalog_node_info)`,
		Summary:     "Prometheus no longer reaches node {{ $labels.node }}, which it reached within the last hour",
		Description: "It was stopped, it crashed, or the scrape fails. The other nodes do its work meanwhile; the command lists those. (Nodes without the role owner do not count: their names may change with each rollout.) Look at the log and the machine of the missing node, and start it again with the flags that it had.",
		Command:     "sagalog nodes list",
		Over:        "When the node is back, and in any case an hour after Prometheus last reached it: a node that was removed for good needs no silence.",
	},
	{
		Name: "SagalogOtherNamespace", Critical: true,
		Expr:        `count by (instance) (count by (instance, namespace_id) (max_over_time(sagalog_node_info[1h]))) > 1`,
		Summary:     "{{ $labels.instance }} has served {{ $value }} namespaces within an hour",
		Description: "Another engine listens where a node listened before, perhaps an empty one that somebody started with `sagalog dev`. It accepts tasks that were meant for the node. List what it accepted (`sagalog task list --all -o jsonl`), stop it, start the node again with the flags that it had, and submit those tasks again there. Compare first what ran meanwhile: the other engine may have called real services, which cannot know that the calls of the second run repeat them. If the namespace was replaced on purpose, by a copy, there is nothing to do.",
		Command:     "sagalog namespace show",
		Over:        "An hour after the change.",
	},
	{
		Name: "SagalogDown", Expr: `absent(sagalog_partitions)`, For: 2 * time.Minute, Critical: true,
		Summary:     "Prometheus reaches no node of the engine",
		Description: "No node runs, or the scrape fails. While no node runs, nothing is decided; inputs stay in their topics, and nothing is lost. The command says which nodes are alive. Look at the machines (systemctl status, or the pods) and logs of the others, and start each with the flags and the data directory that it had (docs/cluster.md). Never run `sagalog dev` there: it starts an empty engine, which accepts what was meant for this one.",
		Command:     "sagalog doctor --brokers HOST:PORT",
	},
}

var (
	ranges = regexp.MustCompile(`\[(\d+)([smh])\]`)
	bounds = regexp.MustCompile(`\{(\d+)s\}`)
)

// divided shortens a duration, to no less than least.
func (o Options) divided(d, least time.Duration) time.Duration {
	if o.Divide <= 1 || d == 0 {
		return d
	}
	return max(d/time.Duration(o.Divide), least)
}

// expr is the expression of a rule as Prometheus reads it.
func (o Options) expr(r *Rule) string {
	text := bounds.ReplaceAllStringFunc(r.Expr, func(m string) string {
		n, _ := strconv.Atoi(bounds.FindStringSubmatch(m)[1]) // they are digits
		return strconv.Itoa(int(o.divided(time.Duration(n)*time.Second, time.Second) / time.Second))
	})
	return ranges.ReplaceAllStringFunc(text, func(m string) string {
		d, _ := time.ParseDuration(strings.Trim(m, "[]")) // it matches the pattern
		return "[" + short(o.divided(d, 10*time.Second)) + "]"
	})
}

// short writes a duration as Prometheus does.
func short(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d%unit.of == 0 {
			return fmt.Sprint(int64(d/unit.of), unit.name)
		}
	}
	return fmt.Sprint(d.Milliseconds(), "ms")
}

// AlertRules returns the rules file for Prometheus.
func AlertRules(o Options) []byte {
	var b strings.Builder
	b.WriteString("# Printed by `sagalog generate alert-rules`. What to do about each alert: " + runbook + "\n")
	b.WriteString("groups:\n  - name: sagalog\n    rules:\n")
	for i := range Rules {
		r := &Rules[i]
		fmt.Fprintf(&b, "      - alert: %s\n        expr: %s\n", r.Name, quoted(o.expr(r)))
		if r.For > 0 {
			fmt.Fprintf(&b, "        for: %s\n", short(o.divided(r.For, time.Second)))
		}
		fmt.Fprintf(&b, "        labels: {severity: %s}\n        annotations:\n", r.severity())
		notes := [][2]string{{"summary", r.Summary}, {"description", r.Description}, {"command", r.Command}, {"runbook_url", runbook + "#" + strings.ToLower(r.Name)}}
		if r.Waits != "" {
			notes = append(notes, [2]string{"waiting_for", r.waits()})
		}
		for _, a := range notes {
			fmt.Fprintf(&b, "          %s: %s\n", a[0], quoted(a[1]))
		}
	}
	return []byte(b.String())
}

// waits is the template that names the main reason.
func (r *Rule) waits() string {
	query := strconv.Quote("topk(1, "+r.Waits+")") + " | query"
	if r.Of != "" {
		query = "printf " + strconv.Quote("topk(1, "+r.Waits+")") + " $labels." + r.Of + " | query"
	}
	return "{{ with " + query + ` }}{{ . | first | label "waiting_for" }}{{ end }}`
}

func (r *Rule) severity() string {
	if r.Critical {
		return "critical"
	}
	return "warning"
}

// quoted writes a text as a YAML string in single quotes.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

var templated = regexp.MustCompile(`\{\{ \$(?:labels\.)?(\w+)[^}]*\}\}`)

// Runbook returns docs/alerts.md.
func Runbook() []byte {
	var b strings.Builder
	b.WriteString("# Alerts\n\nPrinted from the table of alert rules; `sagalog generate alert-rules` prints them for Prometheus. Each alert has the labels of its expression, " +
		"`severity`,\nand the annotations `summary`, `description`, `command` (which shows more) and `runbook_url` (the section below).\n")
	overview(&b)
	for i := range Rules {
		r := &Rules[i]
		fmt.Fprintf(&b, "\n## %s\n\n", r.Name)
		when := "at once"
		if r.For > 0 {
			when = "after " + short(r.For)
		}
		fmt.Fprintf(&b, "%s, %s:\n\n```\n%s\n```\n\n%s\n\n```\n%s\n```\n", r.severity(), when, Options{}.expr(r), r.Description, plain(r.Command))
		if r.Waits != "" {
			fmt.Fprintf(&b, "\nThe annotation `waiting_for` names the main reason, by `topk(1, %s)`.\n", strings.ReplaceAll(r.Waits, "%s", strings.ToUpper(r.Of)))
		}
		if r.Over != "" {
			fmt.Fprintf(&b, "\nWhen it ends: %s\n", r.Over)
		}
	}
	return []byte(b.String())
}

// ScrapeConfig returns an example of a configuration of Prometheus.
func ScrapeConfig() []byte {
	return []byte(`# An example: every node (--http) and every process that runs only agents (--metrics) is scraped.
global: {scrape_interval: 15s, evaluation_interval: 15s}
rule_files: [alerts.yaml]
scrape_configs:
  - job_name: sagalog
    # authorization: {credentials_file: viewer.token} # if the API asks for tokens
    static_configs:
      - targets: ["127.0.0.1:8642", "127.0.0.1:8643"]
  - job_name: sagalog-agents
    static_configs:
      - targets: ["127.0.0.1:9464"]
`)
}
