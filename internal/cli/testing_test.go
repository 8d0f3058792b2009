package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/scheduler"
)

// offline runs a command with the real parser and without an engine.
func offline(args ...string) result {
	var out, err bytes.Buffer
	root := &cobra.Command{Use: "sagalog", Short: "An engine"}
	root.AddCommand(cli.Commands(cli.Deps{Version: "1.2.3", Load: func(file string, data []byte) (*scheduler.Source, []scheduler.Fault) {
		return scheduler.Parse(file, data, func(ref string) ([]byte, error) { return os.ReadFile(filepath.Join(filepath.Dir(file), ref)) })
	}})...)
	root.SetOut(&out)
	root.SetErr(&err)
	code := cli.Execute(context.Background(), root, args)
	return result{code, out.String(), err.String()}
}

// folder writes files to a new folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

const (
	payWorkflow = "workflow: pay\nsteps:\n  charge: {agent: payment, retry: {attempts: 2}, undo: {}}\n  send: {needs: [charge], agent: mail}\n"
	payTest     = "workflow: pay.yaml\nmocks: {charge: {output: 1}, send: {}}\ncases:\n" +
		"  - name: paid\n    expect: {state: processed}\n" +
		"  - name: \"refused # twice\"\n    mocks: {charge: [{fail: retryable, error: no <money>, effect: none}]}\n    expect: {state: undone}\n"
)

func TestTheTestsOfTheExamplesPass(t *testing.T) {
	t.Parallel()
	for files, covers := range map[string]string{
		"../dronedelivery/files": "coverage: steps 5/5, undos 3/3, skips 1/1\n",
		"../orders/files":        "coverage: steps 1/1, undos 1/1, skips 0/0\n",
	} {
		r := offline("workflow", "test", files)
		require.Equal(t, 0, r.code, r.out+r.err)
		require.Contains(t, r.out, covers)
		require.Empty(t, r.err)
	}
}

func TestAFailedCaseShowsTheDifferenceAndTheSteps(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"pay.yaml": payWorkflow, "pay.test.yaml": payTest})
	r := offline("workflow", "test", dir)
	require.Equal(t, 1, r.code)
	require.Equal(t, "sagalog: 1 of 2 cases failed\n", r.err)
	out := regexp.MustCompile(`\([0-9.]+[mµ]?s; virtual`).ReplaceAllString(strings.ReplaceAll(r.out, dir+"/", ""), "(; virtual")
	require.Equal(t, `pay.test.yaml
  ok    paid (; virtual time 2ms)
  FAIL  refused # twice (; virtual time 869ms)
        pay.test.yaml:7: attempt 2 to do step "charge" has no answer: its mock has only 1 answer: add one to mocks.charge, or give one answer as a mapping for all calls
        pay.test.yaml:8: state
          - expected undone
          + actual   processing
        STEP    STATE        ATTEMPTS  UNDO ATTEMPTS  ERROR
        charge  running      2         0              no <money>
        send    not_started  0         0
                0s  do charge#1: retryable: no <money>
             869ms  do charge#2: no mock
  coverage: steps 2/2, undos 0/1 (never: charge), skips 0/0
`, out)
	r = offline("workflow", "test", dir, "--run", "^paid$")
	require.Equal(t, 0, r.code, r.out+r.err)
	require.NotContains(t, r.out, "coverage", "it would say that cases that did not run reach nothing")
}

func TestReportsForMachinesSayTheSame(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"pay.yaml": payWorkflow, "pay.test.yaml": payTest, "bad.test.yaml": "workflow: pay.yaml\ncases: 5\n"})
	r := offline("workflow", "test", dir, "-o", "junit")
	require.Equal(t, 1, r.code)
	var suites struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Suites   []struct {
			Cases []struct {
				Name    string  `xml:"name,attr"`
				Failure *string `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	require.NoError(t, xml.Unmarshal([]byte(r.out), &suites), r.out)
	require.Equal(t, []int{3, 1, 1}, []int{suites.Tests, suites.Failures, suites.Errors})
	require.Nil(t, suites.Suites[0].Cases[0].Failure)
	require.Contains(t, *suites.Suites[0].Cases[1].Failure, "no <money>")

	r = offline("workflow", "test", dir, "-o", "tap")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "TAP version 13\n1..3\nnot ok 1 - "+dir+"/bad.test.yaml:2:8: cases: expected a list\nok 2 - pay: paid\nnot ok 3 - pay: refused \\# twice\n  ---\n")

	r = offline("workflow", "test", dir, "-o", "json")
	require.Equal(t, 1, r.code)
	var doc struct {
		Faults []scheduler.Fault
		Files  []struct {
			Cases []struct {
				Name, State string
				Passed      bool
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &doc), r.out)
	require.Len(t, doc.Faults, 1)
	require.Equal(t, "processed", doc.Files[0].Cases[0].State)
	require.False(t, doc.Files[0].Cases[1].Passed)
}

func TestTestsThatCannotRunAreReported(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"pay.yaml": payWorkflow, "pay.test.yaml": payTest})
	for want, args := range map[string][]string{
		"no such file or directory":              {dir + "/other.test.yaml"},
		"no case was run: no name matches --run": {dir, "--run", "zzz"},
		"has no test file: their names end in":   {t.TempDir()},
	} {
		r := offline(append([]string{"workflow", "test"}, args...)...)
		require.Equal(t, 1, r.code)
		require.Contains(t, r.err, want)
	}
	for want, args := range map[string][]string{
		"--run: error parsing regexp": {dir, "--run", "("},
		`--output "yaml": known are`:  {dir, "-o", "yaml"},
	} {
		r := offline(append([]string{"workflow", "test"}, args...)...)
		require.Equal(t, 2, r.code)
		require.Contains(t, r.err, want)
	}
}
