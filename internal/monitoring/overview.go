package monitoring

import (
	"fmt"
	"strings"
)

// EngineAlert is a kind of alert that the engine itself raises, about one task, agent, schedule or limit.
type EngineAlert struct {
	Kind string
	// Open says that it is open until its cause is gone; otherwise it reports something that happened.
	Open bool
	// Means is a sentence.
	Means string
	// Rules are the names of the rules that watch the same for all tasks together.
	Rules []string
	// Command is the first one to run.
	Command string
}

// EngineAlerts are all kinds of alerts of the engine.
var EngineAlerts = []EngineAlert{
	{"parked", true, "A task waits for an operator.", []string{"SagalogTasksParked", "SagalogTasksParkedLong"}, "sagalog task get ID"},
	{"deadline_passed", true, "A task has not ended at its deadline. Before its pivot it is undone.", []string{"SagalogDeadlinesPassed"}, "sagalog task get ID"},
	{"soft_limit_passed", true, "A step or a task is not over after its `remind_after`.", nil, "sagalog task get ID"},
	{"agent_missing", true, "Steps have waited for 30 s for an operation that no live instance offers.", []string{"SagalogAgentMissing", "SagalogAgentBacklog"}, "sagalog agents list"},
	{"schedule_blocked", true, "Several due times in a row were skipped, because a task of the schedule has not ended.", nil, "sagalog schedule get NAME"},
	{"concurrency_blocked", true, "Tasks have waited for 15 minutes for the permit of a task that is parked.", nil, "sagalog limit get WORKFLOW/KEY"},
	{"undone", false, "A task was undone.", []string{"SagalogUndoRate"}, "sagalog task get ID"},
	{"permanent_failure", false, "A service refused a step for good.", []string{"SagalogStepFailing"}, "sagalog task history ID"},
	{"effect_failed", false, "The brokers refuse a record that the engine has to write.", []string{"SagalogEffectsStuck"}, "sagalog doctor --brokers HOST:PORT"},
	{"schedule_missed", false, "Due times of a schedule were older than its `catch_up`, so they started no task.", []string{"SagalogScheduleMissed"}, "sagalog schedule get NAME"},
	{"schedule_failed", false, "The task of a due time was rejected, or cannot be submitted.", nil, "sagalog schedule next NAME"},
}

// overview writes the alerts of the engine and the rules side by side.
func overview(b *strings.Builder) {
	b.WriteString("\n## Which alert\n\nThe engine raises alerts about single tasks, agents, schedules and limits: `sagalog alert list` shows those that are open, `sagalog alert list --open=false` the newest\n" +
		"that were raised, including those that only report an event, and [the webhook](webhook.md) sends both kinds. The rules watch the metrics of all nodes, so they also notice what an\nengine that is down cannot report. " +
		"Neither list includes the other: `sagalog alert list` says nothing about the rules, and Prometheus nothing about single tasks. If both watch the same thing,\nthey share a line. " +
		"`sagalog doctor` takes the same flags as the node's `sagalog serve`. The other commands ask the API at SAGALOG_API or `--api`, by default `http://127.0.0.1:8642`.\n\n| alert of the engine | rule | means | first command |\n|---|---|---|---|\n")
	named := map[string]bool{}
	for _, a := range EngineAlerts {
		var links []string
		for _, r := range a.Rules {
			links, named[r] = append(links, linked(r)), true
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | `%s` |\n", a.Kind, strings.Join(links, ", "), a.Means, a.Command)
	}
	for i := range Rules {
		if r := &Rules[i]; !named[r.Name] {
			fmt.Fprintf(b, "| | %s | %s | `%s` |\n", linked(r.Name), meaning(r), plain(r.Command))
		}
	}
}

func linked(rule string) string { return "[" + rule + "](#" + strings.ToLower(rule) + ")" }

// meaning says what a rule means, for a table: its summary without the values that only an alert has.
func meaning(r *Rule) string {
	text := plain(r.Summary)
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// plain replaces the templates of Prometheus by their names in capitals.
func plain(text string) string {
	return templated.ReplaceAllStringFunc(text, func(m string) string { return strings.ToUpper(templated.FindStringSubmatch(m)[1]) })
}
