package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// A submission ends each process that judges it, by an overflow of the stack, which no program in Go can catch. After the third one
// that judged it alone, it is a dead letter, and the others of its partition go on.
func TestAnInputThatEndsTheProcessBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	work := workDir(t)
	f := startFleet(t, work)
	e := newEngineWith(t, work, f)
	e.program = hooked(t)
	e.env = append(e.env, "SAGALOG_TEST_LETHAL=ends-the-process", "GOTRACEBACK=none")
	e.start()
	home := events.Home("lethal", 8)
	ids := func(name string) (list []string) {
		for i := 0; len(list) < 20; i++ {
			if id := fmt.Sprint(name, i); events.Home(id, 8) == home {
				list = append(list, id)
			}
		}
		return list
	}
	before, after := ids("before-"), ids("after-")
	for i, id := range before {
		e.submit(id, delivery(id, i))
	}
	body := strings.Replace(string(delivery("lethal", 1)), `"ownerId":"`, `"ownerId":"ends-the-process`, 1)
	require.Contains(t, body, "ends-the-process")
	_, _, _ = e.try("PUT", taskPath("lethal"), []byte(body)) // the answer may not come
	for n := range 4 {
		require.Equal(t, 2, e.wait(patience))
		require.Equal(t, n+1, strings.Count(e.stderr(), "fatal error: stack overflow"))
		e.begin()
	}
	e.ready()
	for i, id := range after {
		e.submit(id, delivery(id, i))
	}
	for _, id := range append(before, after...) {
		require.Equal(t, "processed", e.settled(id).State)
	}
	require.Equal(t, []string{events.RejectEnded}, e.deadReasons())
	e.stop()
	marks, err := os.ReadDir(filepath.Join(e.data, "marks"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(marks), 1, "a clean stop leaves no mark but that of the suspect")
	e.start() // its offset is passed by now
	e.stop()
	marks, err = os.ReadDir(filepath.Join(e.data, "marks"))
	require.NoError(t, err)
	require.Empty(t, marks)
}
