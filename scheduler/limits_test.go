package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/scheduler"
)

func TestTheLargestWorkflowIsParsedInBoundedTime(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	t.Parallel()
	var b strings.Builder
	b.WriteString(head)
	for i := range 1000 {
		fmt.Fprintf(&b, "  s%d: {agent: a, with: \"${ input.x + 1 }\", needs: [", i)
		for j := max(0, i-150); j < i; j++ {
			fmt.Fprintf(&b, "s%d,", j)
		}
		b.WriteString("]}\n")
	}
	src, faults := scheduler.Parse("f", []byte(b.String()), nil)
	require.Empty(t, faults)
	require.NotNil(t, src)
}

func TestTheFaultsOfADocumentAreReportedUpToABound(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(head)
	for i := range 1000 {
		fmt.Fprintf(&b, "  s%d: {agent: a, wiht: 1, needs: [x%d, y%d], if: \"${ steps.z.output }\"}\n", i, i, i)
	}
	src, faults := scheduler.Parse("f", []byte(b.String()), nil)
	require.Nil(t, src)
	require.Len(t, faults, 500)
	src, faults = scheduler.Parse("f", []byte(strings.Repeat("#", 2<<20)), nil)
	require.Nil(t, src)
	require.Equal(t, "f:1:1: the document is larger than 1048576 bytes\n", lines(faults))
}

// A key stands in the path of everything below it. A document of 1 MB with one long key made paths of gigabytes, and the answer that
// lists its faults was as long. It does not run in parallel, since it counts the memory of the process.
func TestThePathsOfADocumentAreBounded(t *testing.T) {
	list := strings.TrimSuffix(strings.Repeat("1,", 40_000), ",")
	nested := strings.Repeat("{"+strings.Repeat("k", 1000)+": ", 90) + "[" + list + "]" + strings.Repeat("}", 90)
	for name, c := range map[string]struct{ text, says string }{
		"members of a long key":    {"workflow: w\n? " + strings.Repeat("k", 100_000) + "\n: [" + list + "]\n", "the key has 100000 bytes, and the limit is 1024"},
		"duplicates in a long key": {"workflow: w\n? " + strings.Repeat("k", 100_000) + "\n: {" + strings.Repeat("a: 1, ", 5000) + "}\n", "the key has 100000 bytes"},
		"duplicates below":         {"workflow: w\nx:\n  " + strings.Repeat("k", 1000) + ": {" + strings.Repeat("a: 1, ", 5000) + "}\n", "duplicate key"},
		"many levels":              {head + "  a: {agent: a, with: " + nested + "}\n", ""},
		"a long number":            {"workflow: w\ndeadline: 1" + strings.Repeat("0", 5000) + "\n", "deadline: "},
	} {
		t.Run(name, func(t *testing.T) {
			var faults []scheduler.Fault
			bytes := allocated(func() { _, faults = scheduler.Parse("f", []byte(c.text), nil) })
			require.Less(t, bytes, uint64(256<<20))
			require.Contains(t, lines(faults), c.says)
			require.LessOrEqual(t, len(lines(faults)), 500*1500)
			for _, f := range faults {
				require.LessOrEqual(t, len(f.Path), 203)
			}
		})
	}
}
