package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

func TestAReportsIDQuotesEachText(t *testing.T) {
	t.Parallel()
	r := newReporter("a", &Config{Instance: `i",1`})
	w := events.Work{Task: "t", Ticket: `k"`, Run: 2, Step: "s", Operation: events.Do, Attempt: 3}
	require.Equal(t, `t["k\"",2,"s","do",3,"i\",1"]`, r.id(&w))
}

func BenchmarkReportID(b *testing.B) {
	r := newReporter("payment", &Config{Instance: "host-17-4f1c2d3e4f5a6b7c8d9e"})
	w := events.Work{Task: "bench-000000123", Ticket: "3/12345", Run: 1, Step: "payment", Operation: events.Do, Attempt: 1}
	b.ReportAllocs()
	for b.Loop() {
		_ = r.id(&w)
	}
}
