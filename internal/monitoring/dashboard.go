package monitoring

import "encoding/json"

// panel is one graph of the dashboard: queries by the legends of their lines.
type panel struct {
	title, unit string
	// stat says that it shows the latest value and no graph.
	stat    bool
	queries [][2]string
}

// row is a row of panels under a heading.
type row struct {
	title  string
	panels []panel
}

var rows = []row{
	{"Needs you", []panel{
		{title: "Parked tasks", stat: true, queries: [][2]string{{`sum(sagalog_tasks{state="error"})`, "parked"}}},
		{title: "Parked for", unit: "s", stat: true, queries: [][2]string{{`max(sagalog_task_oldest_seconds{state="error"})`, "oldest"}}},
		{title: "Agents missing", stat: true, queries: [][2]string{{`count(sum by (agent) (sagalog_agent_ready_steps) > 0 and on (agent) max by (agent) (sagalog_agent_live_instances) == 0) or vector(0)`, "agents"}}},
		{title: "Dead letters, 24 h", stat: true, queries: [][2]string{{`sum(increase(sagalog_dead_letters_total[24h]))`, "letters"}}},
		{title: "Partitions owned", stat: true, queries: [][2]string{{`count(count by (partition) (sagalog_partition_owned == 1)) or vector(0)`, "owned"}, {`max(sagalog_partitions)`, "of"}}},
		{title: "Partitions stopped", stat: true, queries: [][2]string{{`count(max by (partition) (sagalog_partition_stopped) == 1) or vector(0)`, "stopped"}}},
	}},
	{"Tasks", []panel{
		{title: "Accepted and ended", unit: "ops", queries: [][2]string{
			{`sum(rate(sagalog_tasks_accepted_total{workflow=~"$workflow"}[$__rate_interval]))`, "accepted"}, {`sum by (state) (rate(sagalog_tasks_ended_total{workflow=~"$workflow"}[$__rate_interval]))`, "{{state}}"},
		}},
		{title: "Live tasks", queries: [][2]string{{`sum by (state) (sagalog_tasks{workflow=~"$workflow"})`, "{{state}}"}}},
		{title: "What steps wait for", queries: [][2]string{{`sum by (waiting_for) (sagalog_steps_waiting)`, "{{waiting_for}}"}}},
		{title: "Duration", unit: "s", queries: [][2]string{
			{`histogram_quantile(0.5, sum by (le) (rate(sagalog_task_duration_seconds_bucket{workflow=~"$workflow"}[$__rate_interval])))`, "p50"},
			{`histogram_quantile(0.99, sum by (le) (rate(sagalog_task_duration_seconds_bucket{workflow=~"$workflow"}[$__rate_interval])))`, "p99"},
			{`histogram_quantile(0.99, sum by (le) (rate(sagalog_task_start_delay_seconds_bucket{workflow=~"$workflow"}[$__rate_interval])))`, "start, p99"},
		}},
	}},
	{"Steps", []panel{
		{title: "Attempts", unit: "ops", queries: [][2]string{{`sum by (step, outcome) (rate(sagalog_attempts_total{workflow=~"$workflow"}[$__rate_interval]))`, "{{step}} {{outcome}}"}}},
		{title: "Duration of attempts, p99", unit: "s", queries: [][2]string{{`histogram_quantile(0.99, sum by (le, step) (rate(sagalog_attempt_duration_seconds_bucket{workflow=~"$workflow"}[$__rate_interval])))`, "{{step}}"}}},
		{title: "Failures", unit: "ops", queries: [][2]string{{`sum by (step, class, effect) (rate(sagalog_attempt_failures_total{workflow=~"$workflow"}[$__rate_interval]))`, "{{step}} {{class}} {{effect}}"}}},
		{title: "Verdicts", unit: "ops", queries: [][2]string{{`sum by (action) (rate(sagalog_verdicts_total{workflow=~"$workflow"}[$__rate_interval]))`, "{{action}}"}}},
	}},
	{"Agents", []panel{
		{title: "Waiting attempts", queries: [][2]string{{`sum by (agent) (sagalog_agent_ready_steps)`, "{{agent}}"}}},
		{title: "Oldest waiting attempt", unit: "s", queries: [][2]string{{`max by (agent) (sagalog_agent_ready_oldest_seconds)`, "{{agent}}"}}},
		{title: "In flight, of capacity", queries: [][2]string{{`max by (agent) (sagalog_agent_in_flight)`, "{{agent}}"}, {`max by (agent) (sagalog_agent_capacity)`, "{{agent}} capacity"}}},
		{title: "Calls", unit: "ops", queries: [][2]string{{`sum by (agent, outcome) (rate(sagalog_agent_calls_total[$__rate_interval]))`, "{{agent}} {{outcome}}"}}},
		{title: "Breakers (2 is open)", queries: [][2]string{{`max by (agent) (sagalog_agent_breaker_state)`, "{{agent}}"}}},
		{title: "Limits in use", queries: [][2]string{{`sum by (limit) (sagalog_limit_in_use)`, "{{limit}}"}, {`sum by (limit) (sagalog_limit_waiting)`, "{{limit}} waiting"}}},
	}},
	{"Engine", []panel{
		{title: "Facts", unit: "ops", queries: [][2]string{{`sum(rate(sagalog_facts_total[$__rate_interval]))`, "facts"}}},
		{title: "Appends, p99", unit: "s", queries: [][2]string{{`histogram_quantile(0.99, sum by (le) (rate(sagalog_append_seconds_bucket[$__rate_interval])))`, "p99"}}},
		{title: "Input lag", unit: "s", queries: [][2]string{{`max by (topic) (sagalog_input_lag_seconds)`, "{{topic}}"}, {`max(sagalog_projection_lag_seconds)`, "projection"}}},
		{title: "Effects without an answer", queries: [][2]string{{`sum by (class) (sagalog_outbox_records)`, "{{class}}"}}},
		{title: "Take-overs", queries: [][2]string{{`sum by (cause) (increase(sagalog_takeovers_total[$__rate_interval]))`, "{{cause}}"}}},
		{title: "Timers late, p99", unit: "s", queries: [][2]string{{`histogram_quantile(0.99, sum by (le, kind) (rate(sagalog_timer_lateness_seconds_bucket[$__rate_interval])))`, "{{kind}}"}}},
		{title: "Disk", unit: "bytes", queries: [][2]string{{`sagalog_state_bytes`, "state {{instance}}"}, {`sagalog_disk_free_bytes`, "free {{instance}}"}}},
		{title: "API, p99", unit: "s", queries: [][2]string{{`histogram_quantile(0.99, sum by (le, route) (rate(sagalog_api_request_duration_seconds_bucket[$__rate_interval])))`, "{{route}}"}}},
	}},
}

// The grid of Grafana has 24 columns; graphs take 6 of them, in lines of 8 units.
const (
	gridColumns = 24
	graphWidth  = 6
	graphHeight = 8
	statWidth   = 4
	statHeight  = 4
)

type object = map[string]any

// Dashboard returns the dashboard for Grafana.
func Dashboard() []byte {
	var panels []object
	y, id := 0, 0
	add := func(p object, x, y, w, h int) {
		id++
		p["id"], p["gridPos"] = id, object{"x": x, "y": y, "w": w, "h": h}
		panels = append(panels, p)
	}
	for _, r := range rows {
		add(object{"type": "row", "title": r.title, "collapsed": false, "panels": []object{}}, 0, y, gridColumns, 1)
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			w, h := graphWidth, graphHeight
			if p.stat {
				w, h = statWidth, statHeight
			}
			if x+w > gridColumns {
				x, y = 0, y+height
			}
			add(p.object(), x, y, w, h)
			x, height = x+w, h
		}
		y += height
	}
	board := object{
		"uid": "sagalog", "title": "Sagalog", "tags": []string{"sagalog"}, "schemaVersion": 39, "version": 1, "refresh": "30s", "editable": true,
		"time": object{"from": "now-1h", "to": "now"}, "panels": panels,
		"templating": object{"list": []object{
			{"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
			{"name": "workflow", "label": "Workflow", "type": "query", "datasource": source, "query": object{"query": "label_values(sagalog_tasks, workflow)", "refId": "workflow"},
				"refresh": 2, "includeAll": true, "multi": true, "allValue": ".*", "current": object{"text": "All", "value": "$__all"}},
		}},
	}
	text, err := json.MarshalIndent(board, "", "  ")
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	return append(text, '\n')
}

var source = object{"type": "prometheus", "uid": "${source}"}

func (p panel) object() object {
	kind := "timeseries"
	if p.stat {
		kind = "stat"
	}
	var targets []object
	for i, q := range p.queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": source, "expr": q[0], "legendFormat": q[1]})
	}
	unit := p.unit
	if unit == "" {
		unit = "short"
	}
	return object{
		"type": kind, "title": p.title, "datasource": source, "targets": targets,
		"fieldConfig": object{"defaults": object{"unit": unit, "min": 0}, "overrides": []object{}},
	}
}
