package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/monitoring"
	"github.com/stretchr/testify/require"
)

// simulation is what Prometheus would see of a fault, and without it, as series and their values every 15 s for two hours.
type simulation struct{ fault, healthy [][2]string }

var simulations = map[string]simulation{
	"SagalogPartitionUnowned": {
		fault:   [][2]string{{"sagalog_partitions", "2x480"}, {`sagalog_partition_owned{partition="0"}`, "1x480"}, {`sagalog_partition_owned{partition="1"}`, "0x480"}},
		healthy: [][2]string{{"sagalog_partitions", "2x480"}, {`sagalog_partition_owned{partition="0"}`, "1x480"}, {`sagalog_partition_owned{partition="1"}`, "1x480"}},
	},
	"SagalogPartitionStopped": {
		fault:   [][2]string{{`sagalog_partition_stopped{partition="0",reason="input_lost"}`, "1x480"}},
		healthy: [][2]string{{`sagalog_partition_stopped{partition="0",reason=""}`, "0x480"}},
	},
	"SagalogTakeovers": {
		fault:   [][2]string{{`sagalog_takeovers_total{cause="silent"}`, "0x400 4x80"}},
		healthy: [][2]string{{`sagalog_takeovers_total{cause="stopped"}`, "0x400 4x80"}, {`sagalog_takeovers_total{cause="silent"}`, "0x400 1x80"}},
	},
	"SagalogEffectsStuck": {
		fault:   [][2]string{{`sagalog_outbox_oldest_seconds{class="alert"}`, "0+15x480"}},
		healthy: [][2]string{{`sagalog_outbox_oldest_seconds{class="alert"}`, "100x480"}},
	},
	"SagalogTimersLate": {
		fault: [][2]string{
			{`sagalog_timer_lateness_seconds_bucket{kind="deadline",le="5"}`, "0+1x480"}, {`sagalog_timer_lateness_seconds_bucket{kind="deadline",le="10"}`, "0+2x480"},
			{`sagalog_timer_lateness_seconds_bucket{kind="deadline",le="+Inf"}`, "0+2x480"},
		},
		healthy: [][2]string{
			{`sagalog_timer_lateness_seconds_bucket{kind="deadline",le="5"}`, "0+2x480"}, {`sagalog_timer_lateness_seconds_bucket{kind="deadline",le="10"}`, "0+2x480"},
			{`sagalog_timer_lateness_seconds_bucket{kind="deadline",le="+Inf"}`, "0+2x480"},
		},
	},
	"SagalogClock": {
		fault:   [][2]string{{`sagalog_clock_offset_seconds{against="broker",instance="a"}`, "-11x480"}},
		healthy: [][2]string{{`sagalog_clock_offset_seconds{against="broker",instance="a"}`, "-9x480"}},
	},
	"SagalogKeysUnread": {
		fault:   [][2]string{{`sagalog_keys_read_age_seconds{instance="a"}`, "0+15x480"}},
		healthy: [][2]string{{`sagalog_keys_read_age_seconds{instance="a"}`, "1x480"}},
	},
	"SagalogHeldForKeys": {
		fault:   [][2]string{{`sagalog_inputs_held_for_keys{topic="submissions"}`, "1x480"}, {`sagalog_tasks_held_for_keys`, "0x480"}},
		healthy: [][2]string{{`sagalog_inputs_held_for_keys{topic="submissions"}`, "0x480"}, {`sagalog_tasks_held_for_keys`, "0x480"}},
	},
	"SagalogAgentLacksKey": {
		fault:   [][2]string{{`sagalog_agent_keyless_instances{agent="a"}`, "1x480"}},
		healthy: [][2]string{{`sagalog_agent_keyless_instances{agent="a"}`, "0x480"}},
	},
	"SagalogStepsWait": { // signals and pauses after failures are no faults
		fault:   [][2]string{{`sagalog_steps_waiting{waiting_for="key"}`, "1x480"}, {`sagalog_steps_waiting{waiting_for="signal"}`, "9x480"}},
		healthy: [][2]string{{`sagalog_steps_waiting{waiting_for="key"}`, "0x480"}, {`sagalog_steps_waiting{waiting_for="retry"}`, "9x480"}, {`sagalog_steps_waiting{waiting_for="owner"}`, "0x400 9x10 0x70"}},
	},
	"SagalogProjectionLag": {
		fault:   [][2]string{{`sagalog_projection_lag_seconds{partition="0"}`, "31x480"}},
		healthy: [][2]string{{`sagalog_projection_lag_seconds{partition="0"}`, "29x480"}},
	},
	"SagalogDiskFull": {
		fault:   [][2]string{{`sagalog_disk_free_bytes{instance="a"}`, "1000000-1000x480"}},
		healthy: [][2]string{{`sagalog_disk_free_bytes{instance="a"}`, "1000000-10x480"}},
	},
	"SagalogDiskLow": {
		fault:   [][2]string{{`sagalog_disk_free_bytes{instance="a"}`, "1000000000x480"}},
		healthy: [][2]string{{`sagalog_disk_free_bytes{instance="a"}`, "2000000000x480"}},
	},
	"SagalogNodeMissing": {
		fault: [][2]string{ // a node of another namespace has the same name
			{`sagalog_node_info{instance="a",namespace_id="x",node="n1",owner="true"}`, "1x480"}, {`sagalog_node_info{instance="b",namespace_id="x",node="n2",owner="true"}`, "1x420 _x60"},
			{`sagalog_node_info{instance="c",namespace_id="y",node="n2",owner="true"}`, "1x480"},
		},
		healthy: [][2]string{ // n2 was removed for good, n3 is back at another address, and a pod that only serves the API was replaced
			{`sagalog_node_info{instance="a",namespace_id="x",node="n1",owner="true"}`, "1x480"}, {`sagalog_node_info{instance="b",namespace_id="x",node="n2",owner="true"}`, "1x100 _x380"},
			{`sagalog_node_info{instance="c",namespace_id="x",node="n3",owner="true"}`, "1x420 _x60"}, {`sagalog_node_info{instance="d",namespace_id="x",node="n3",owner="true"}`, "_x430 1x50"},
			{`sagalog_node_info{instance="e",namespace_id="x",node="api-1",owner="false"}`, "1x420 _x60"}, {`sagalog_node_info{instance="f",namespace_id="x",node="api-2",owner="false"}`, "_x420 1x60"},
		},
	},
	"SagalogOtherNamespace": {
		fault:   [][2]string{{`sagalog_node_info{instance="a",namespace_id="x",node="n1"}`, "1x420 _x60"}, {`sagalog_node_info{instance="a",namespace_id="y",node="dev"}`, "_x440 1x40"}},
		healthy: [][2]string{{`sagalog_node_info{instance="a",namespace_id="x",node="n1"}`, "1x480"}, {`sagalog_node_info{instance="b",namespace_id="y",node="n1"}`, "1x480"}},
	},
	"SagalogCarryOverdue": {
		fault:   [][2]string{{`sagalog_carry_age_seconds{partition="0"}`, "51x480"}, {`sagalog_keep_log_seconds{instance="a"}`, "100x480"}},
		healthy: [][2]string{{`sagalog_carry_age_seconds{partition="0"}`, "51x480"}, {`sagalog_keep_log_seconds{instance="a"}`, "0x480"}},
	},
	"SagalogScheduleMissed": {
		fault:   [][2]string{{`sagalog_schedule_fires_total{result="missed",schedule="s"}`, "0x400 1x80"}},
		healthy: [][2]string{{`sagalog_schedule_fires_total{result="missed",schedule="s"}`, "1x480"}, {`sagalog_schedule_fires_total{result="fired",schedule="s"}`, "0x400 1x80"}},
	},
}

// The rules whose faults cannot be made here fire on the series of the fault, and on nothing else. The rules are those that the program prints.
func TestAlertsByPromtool(t *testing.T) {
	t.Parallel()
	prometheusNeeded(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.yaml"), monitoring.AlertRules(monitoring.Options{}), 0o600))
	var b strings.Builder
	b.WriteString("rule_files: [alerts.yaml]\nevaluation_interval: 15s\ntests:\n")
	for name, s := range simulations {
		for fires, series := range [][][2]string{s.healthy, s.fault} {
			b.WriteString("- interval: 15s\n  input_series:\n")
			for _, x := range series {
				fmt.Fprintf(&b, "  - {series: '%s', values: '%s'}\n", x[0], x[1])
			}
			fmt.Fprintf(&b, "  promql_expr_test:\n  - expr: 'count(ALERTS{alertname=\"%s\",alertstate=\"firing\"}) or vector(0)'\n    eval_time: 2h\n    exp_samples: [{labels: '{}', value: %d}]\n",
				name, fires)
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "test.yaml"), []byte(b.String()), 0o600))
	cmd := exec.Command("promtool", "test", "rules", "test.yaml")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

// An alert about what waits names the main reason, of the agent that it is about.
func TestAlertsNameTheMainReason(t *testing.T) {
	t.Parallel()
	prometheusNeeded(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.yaml"), monitoring.AlertRules(monitoring.Options{}), 0o600))
	i := slices.IndexFunc(monitoring.Rules, func(r monitoring.Rule) bool { return r.Name == "SagalogAgentBacklog" })
	r := &monitoring.Rules[i]
	text := fmt.Sprintf(`rule_files: [alerts.yaml]
evaluation_interval: 15s
tests:
- interval: 15s
  input_series:
  - {series: 'sagalog_agent_ready_oldest_seconds{agent="stock"}', values: '600x480'}
  - {series: 'sagalog_agent_waiting_steps{agent="stock",waiting_for="capacity"}', values: '3x480'}
  - {series: 'sagalog_agent_waiting_steps{agent="stock",waiting_for="paused"}', values: '7x480'}
  - {series: 'sagalog_agent_waiting_steps{agent="other",waiting_for="agent"}', values: '99x480'}
  alert_rule_test:
  - eval_time: 1h
    alertname: SagalogAgentBacklog
    exp_alerts:
    - exp_labels: {severity: warning, agent: stock}
      exp_annotations:
        waiting_for: paused
        summary: attempts have waited 10m 0s for agent stock
        description: %q
        command: %q
        runbook_url: https://github.com/sagalog/sagalog/blob/main/docs/alerts.md#sagalogagentbacklog
`, r.Description, r.Command)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "test.yaml"), []byte(text), 0o600))
	cmd := exec.Command("promtool", "test", "rules", "test.yaml")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}
