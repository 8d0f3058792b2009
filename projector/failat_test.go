package projector_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

// wreckEnv tells a child process of this test which operation fails: "kind k directory".
const wreckEnv = "SAGALOG_TEST_WRECK"

// failing lists the kinds of operations that fail, and the step from one tried operation to the next. With SAGALOG_E2E=full
// every operation is tried.
var failing = map[string]struct {
	on    func(errorfs.Op) bool
	every int
}{
	"write": {func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite }, 11},
	"read":  {func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsRead }, 17},
	"sync": {func(op errorfs.Op) bool {
		return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
	}, 4},
}

// INV3 when the disk fails: a store is created, gets some dozen commits with a sync among them, and is closed. In each run the
// k-th write, read or sync fails, for each k until there are no more operations. The store returns an error, recovers, or ends
// its process. The disk then holds the state after one of the commits, including everything that was synced.
func TestFailAtEachOperation(t *testing.T) {
	if job := os.Getenv(wreckEnv); job != "" {
		wreck(t, job)
		return
	}
	t.Parallel()
	s := &script{t: t, keys: map[string]*events.Keys{}, allowed: map[int64][]string{0: {"next 0\n"}}}
	require.NoError(t, s.try(smallTables(vfs.NewMem())), "nothing fails without faults")
	for kind, f := range failing {
		every := f.every
		if os.Getenv("SAGALOG_E2E") == "full" {
			every = 1
		}
		if testing.Short() && kind != "read" { // nearly every failed read is made up for, so fewer of them might show nothing else
			every *= 3
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			outcomes := map[string]int{}
			k := 0
			for ; outcomes["none was left"] == 0; k += every {
				outcomes[s.failAt(t, kind, k)]++
			}
			t.Logf("every %d. of k = 0..%d: %v", every, k-every, outcomes)
			require.Positive(t, outcomes["said so"]+outcomes["ended the process"])
			require.Greater(t, k/every, 5)
		})
	}
}

// failAt makes another process run the script with one error, and examines the store afterwards.
func (s *script) failAt(t *testing.T, kind string, k int) string {
	dir := t.TempDir()
	c := exec.Command(os.Args[0], "-test.run", "^TestFailAtEachOperation$", "-test.v")
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", wreckEnv, kind, k, dir))
	out, err := c.CombinedOutput()
	output := string(out)
	outcome := "ended the process"
	for _, o := range []string{"said so", "made up for it", "none was left"} {
		if strings.Contains(output, "outcome: "+o) {
			outcome = o
			require.NoError(t, err, "%s", out)
		}
	}
	require.True(t, strings.Contains(output, "injected") || outcome == "none was left", "%s", out)
	store, err := projector.Open(dir+"/"+directory, smallTables(vfs.Default))
	if err != nil && !strings.Contains(output, "opened") {
		require.ErrorIs(t, err, projector.ErrDamaged, "%s %d", kind, k)
		return outcome
	}
	require.NoError(t, err, "%s %d", kind, k)
	require.NoError(t, store.CheckIndexes(), "%s %d", kind, k)
	next, lines := picture(t, store)
	require.Contains(t, s.allowed[next], lines, "%s %d", kind, k)
	if strings.Contains(output, "synced") {
		require.GreaterOrEqual(t, next, int64(syncedStep), "%s %d", kind, k)
	}
	if outcome == "made up for it" || outcome == "none was left" {
		require.Equal(t, int64(crashSteps), next, "%s %d", kind, k)
	}
	require.NoError(t, store.Close())
	return outcome
}

// wreck is the main function of the other process.
func wreck(t *testing.T, job string) {
	var kind, dir string
	var k int64
	_, err := fmt.Sscanf(job, "%s %d %s", &kind, &k, &dir)
	require.NoError(t, err)
	var count atomic.Int64
	fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !failing[kind].on(op) || count.Add(1) != k+1 {
			return nil
		}
		fmt.Printf("injected into operation %d on %s\n", op.Kind, op.Path)
		return errorfs.ErrInjected
	}))
	s := &script{t: t, keys: map[string]*events.Keys{}, allowed: map[int64][]string{}}
	require.NoError(t, os.Chdir(dir))
	err = s.try(smallTables(fs))
	switch {
	case count.Load() <= k:
		require.NoError(t, err)
		fmt.Println("outcome: none was left")
	case err != nil:
		fmt.Println("outcome: said so:", err)
	default:
		fmt.Println("outcome: made up for it")
	}
}

// try is the script with errors returned, and without a reset.
func (s *script) try(o projector.Options) error {
	store, err := projector.Open(directory, o)
	if err != nil {
		return err
	}
	fmt.Println("opened")
	return errors.Join(s.steps(store), store.Close())
}

func (s *script) steps(store *projector.Store) error {
	for step := int64(1); step <= crashSteps; step++ {
		b := projector.Batch{
			Deltas:  []*events.Delta{s.delta(0, step), s.delta(1, step)},
			Anchors: map[int32]projector.Anchor{0: {TopicID: topic, Offset: step - 1, Hash: fmt.Sprint(step)}},
		}
		s.allow(step, s.expect(step))
		if err := store.Commit(b); err != nil {
			return err
		}
		if step != syncedStep {
			continue
		}
		if err := store.Sync(); err != nil {
			return err
		}
		fmt.Println("synced")
	}
	return nil
}
