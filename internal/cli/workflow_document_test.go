package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The commands of the section about tests run as they stand there, from the root of the repository.
func TestTheCommandsOfTheDocumentAboutTestsWork(t *testing.T) {
	document, err := os.ReadFile("../../docs/workflows.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(document), "## Test a workflow\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	t.Chdir("../..")
	commands := regexp.MustCompile(`(?m)^go run \./cmd/sagalog (.*)$`).FindAllStringSubmatch(section, -1)
	require.NotEmpty(t, commands)
	for _, c := range commands {
		r := offline(strings.Fields(strings.ReplaceAll(c[1], "'", ""))...)
		require.Equal(t, 0, r.code, "%s\n%s%s", c[0], r.out, r.err)
	}

	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(section)
	require.NotNil(t, example)
	dir := folder(t, map[string]string{
		"workflow.yaml": "workflow: pay\nsteps:\n  charge: {agent: payment}\n", "pay.test.yaml": example[1],
	})
	r := offline("workflow", "test", filepath.Join(dir, "pay.test.yaml"))
	require.Equal(t, 0, r.code, r.out+r.err)
}
