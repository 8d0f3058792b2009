package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/scheduler"
)

func TestTheLargestWorkflowIsParsedInBoundedTime(t *testing.T) {
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
