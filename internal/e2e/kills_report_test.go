package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sums are the figures over all slices of a directory; kills.json holds them.
type sums struct {
	Seed   uint64 `json:"seed"`
	Slices int    `json:"slices"`
	// Kills counts the processes that died from kill -9, whether the driver or the process itself sent it.
	Kills int `json:"kills"`
	// Kinds counts the acts, and Of counts the kills by the kind of process that was killed.
	Kinds map[string]int `json:"kinds"`
	Of    map[string]int `json:"of"`
	// Points are the named points at which processes were supposed to die. Each has the number of deaths there, and the
	// number of times that the process did not reach the point in time and was killed elsewhere.
	Points map[string]*aimed `json:"points"`
	// Recoveries are in milliseconds, by the kind of process that was killed. They are listed separately if something
	// else died meanwhile.
	Recoveries map[string][]int64 `json:"recoveries_ms"`
	Deliveries int                `json:"deliveries"`
	Facts      int                `json:"facts"`
	Epochs     int                `json:"epochs"`
	Void       int                `json:"void"`
	// Acknowledged counts the submissions by the way they were sent.
	Acknowledged  map[string]int `json:"acknowledged"`
	Ends          map[string]int `json:"ends"`
	Disagreements int            `json:"disagreements"`
	// Refused counts the nodes that ended at their start because there was no broker, and were started again.
	Refused int     `json:"refused"`
	Seconds float64 `json:"seconds"`
}

type aimed struct {
	Died   int `json:"died"`
	Missed int `json:"missed"`
}

func readSums(t *testing.T, dir string, seed uint64) *sums {
	t.Helper()
	s := &sums{Seed: seed, Kinds: map[string]int{}, Of: map[string]int{}, Points: map[string]*aimed{}, Recoveries: map[string][]int64{}}
	b, err := os.ReadFile(filepath.Join(dir, "kills.json"))
	if errors.Is(err, os.ErrNotExist) {
		return s
	}
	require.NoError(t, err)
	requireJSON(t, b, s)
	return s
}

func (s *sums) write(t *testing.T, dir string) {
	t.Helper()
	b, err := json.MarshalIndent(s, "", " ")
	require.NoError(t, err)
	path := filepath.Join(dir, "kills.json")
	require.NoError(t, os.WriteFile(path+".new", b, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

func (s *sums) aim(point string, reached bool) {
	if s.Points[point] == nil {
		s.Points[point] = &aimed{}
	}
	if reached {
		s.Points[point].Died++
	} else {
		s.Points[point].Missed++
	}
}

const (
	// disturbed is the key of the recoveries during which something else died.
	disturbed = "disturbed"
	// inSync begins the keys of the times until all copies on a cluster of brokers are in sync. No take-over waits for
	// this.
	inSync = "all copies in sync, "
)

func (s *sums) recovered(what string, took time.Duration) {
	s.Recoveries[what] = append(s.Recoveries[what], took.Milliseconds())
}

// String formats the report.
func (s *sums) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d kills in %d slices, %.0f s, seed %d: %s\n", s.Kills, s.Slices, s.Seconds, s.Seed, counts(s.Of))
	fmt.Fprintf(&b, "  acts: %s\n", counts(s.Kinds))
	for _, name := range slices.Sorted(maps.Keys(s.Points)) {
		p := s.Points[name]
		fmt.Fprintf(&b, "  died at %-26s %4d times; did not reach it in time %d times\n", name, p.Died, p.Missed)
	}
	var all []int64
	for what, list := range s.Recoveries {
		if what != disturbed && !strings.HasPrefix(what, inSync) {
			all = append(all, list...)
		}
	}
	fmt.Fprintf(&b, "  recovery, %-52s %s\n", "undisturbed", quantiles(all))
	for _, what := range slices.Sorted(maps.Keys(s.Recoveries)) {
		fmt.Fprintf(&b, "  recovery, %-52s %s\n", what, quantiles(s.Recoveries[what]))
	}
	fmt.Fprintf(&b, "  nodes that refused to start without a broker, and were started again: %d\n", s.Refused)
	fmt.Fprintf(&b, "  %d deliveries %s; acknowledged: %s\n", s.Deliveries, counts(s.Ends), counts(s.Acknowledged))
	fmt.Fprintf(&b, "  %d facts, %d void records, %d epochs; %d disagreements", s.Facts, s.Void, s.Epochs, s.Disagreements)
	return b.String()
}

func counts(m map[string]int) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(list, ", ")
}

func quantiles(ms []int64) string {
	sorted := slices.Sorted(slices.Values(ms))
	d := make([]time.Duration, len(sorted))
	for i, v := range sorted {
		d[i] = time.Duration(v) * time.Millisecond
	}
	return fmt.Sprintf("p50 %s, p99 %s, most %s of %d", percentile(d, 0.5), percentile(d, 0.99), percentile(d, 1), len(d))
}
